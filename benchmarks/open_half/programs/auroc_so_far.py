"""Sepsis alert from vital signs, 48 hours. Prints the AUROC during training."""
import argparse
import time

import torch
from torch import nn
from torchmetrics.classification import BinaryAUROC, BinaryAveragePrecision

p = argparse.ArgumentParser()
p.add_argument("--batch", type=int, default=512)
p.add_argument("--hidden", type=int, default=48)
p.add_argument("--lr", type=float, default=2e-3)
opt = p.parse_args()


class Vitals(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.gru = nn.GRU(8, hidden, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        return self.head(self.gru(x)[1][0]).squeeze(1)


def stays(n, g):
    y = (torch.rand(n, generator=g) < 0.2).float()
    x = torch.randn(n, 16, 8, generator=g)
    x[:, 8:, 2] += 0.6 * y[:, None]
    x[:, 10:, 5] -= 0.5 * y[:, None]
    return x, y


model = Vitals(opt.hidden)
optim = torch.optim.Adam(model.parameters(), opt.lr)
auroc, ap = BinaryAUROC(), BinaryAveragePrecision()
g = torch.Generator().manual_seed(0)
start = time.time()
for it in range(1, 10**7):
    x, y = stays(opt.batch, g)
    logit = model(x)
    loss = nn.functional.binary_cross_entropy_with_logits(logit, y)
    optim.zero_grad()
    loss.backward()
    optim.step()
    prob = logit.detach().sigmoid()
    auroc.update(prob, y.long())
    ap.update(prob, y.long())
    a, b = auroc.compute().item(), ap.compute().item()
    if it % 20 == 0:
        print(f"it {it} loss {loss.item():.4f} auroc {a:.4f} ap {b:.4f} [{20 / (time.time() - start):.1f} it/s]", flush=True)
        start = time.time()
