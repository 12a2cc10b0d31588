import argparse
import time

import torch
from torch import nn
from torch.nn import functional as F

parser = argparse.ArgumentParser(description="staff turnover: does somebody leave within the year?")
parser.add_argument("--width", type=int, default=96)
parser.add_argument("--dropout", type=float, default=0.0)
parser.add_argument("--minutes", type=float, default=1.0, help="time budget of a run")
parser.add_argument("--seed", type=int, default=0)
opt = parser.parse_args()

torch.manual_seed(opt.seed)
cat_sizes = [12, 40, 7, 25]
n = 60000
cats = torch.stack([torch.randint(0, s, (n,)) for s in cat_sizes], 1)
nums = torch.randn(n, 10)
score = nums[:, 0] * nums[:, 1] + nums[:, 2] - 0.6 * nums[:, 3].abs() + torch.sin(cats[:, 1].float()) + (cats[:, 0] % 3 == 0).float()
left = (torch.rand(n) < torch.sigmoid(2 * score - 1)).float()
train, test = slice(0, 54000), slice(54000, n)


class Net(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.embs = nn.ModuleList(nn.Embedding(s, 16) for s in cat_sizes)
        self.mlp = nn.Sequential(
            nn.Linear(16 * len(cat_sizes) + 10, width), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(width, width), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, c, x):
        e = [emb(c[:, i]) for i, emb in enumerate(self.embs)]
        return self.mlp(torch.cat(e + [x], 1)).squeeze(1)


net = Net(opt.width, opt.dropout)
optim = torch.optim.AdamW(net.parameters(), lr=3e-4, weight_decay=0.05)
tag = f"w{opt.width}_d{opt.dropout}"
end = time.time() + 60 * opt.minutes
epoch = step = 0
while time.time() < end:
    net.train()
    for idx in torch.randperm(54000).split(512):
        loss = F.binary_cross_entropy_with_logits(net(cats[idx], nums[idx]), left[idx])
        optim.zero_grad()
        loss.backward()
        optim.step()
        if step % 50 == 0:
            print(f"{tag} step {step} loss {loss.item():.4f}")
        step += 1
    net.eval()
    with torch.no_grad():
        out = net(cats[test], nums[test])
        acc = ((out > 0) == left[test].bool()).float().mean()
    print(f"{tag} epoch {epoch} val_loss {F.binary_cross_entropy_with_logits(out, left[test]):.4f} val_acc {acc:.4f}")
    epoch += 1
print(f"{tag} finished after {step} steps")
