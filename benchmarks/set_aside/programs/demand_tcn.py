import argparse
import time

import numpy as np
import torch
from torch import nn


def series(n=300, days=730):
    g = np.random.default_rng(4)
    t = np.arange(days)
    base = g.uniform(0.5, 2, (n, 1))
    s = base * (1 + 0.4 * np.sin(2 * np.pi * (t + g.integers(0, 7, (n, 1))) / 7) + 0.3 * np.sin(2 * np.pi * t / 365))
    promo = (g.random((n, days)) < 0.03) * g.uniform(0.5, 1.5, (n, days))
    return torch.tensor(s + promo + 0.1 * g.standard_normal((n, days)), dtype=torch.float32)


class TCN(nn.Module):
    def __init__(self, w, horizon=14):
        super().__init__()
        c, blocks = 1, []
        for d in (1, 2, 4, 8):
            blocks += [nn.ConstantPad1d((2 * d, 0), 0.0), nn.Conv1d(c, w, 3, dilation=d), nn.ReLU()]
            c = w
        self.body = nn.Sequential(*blocks)
        self.head = nn.Linear(w, horizon)

    def forward(self, x):
        return self.head(self.body(x[:, None])[:, :, -1])


ap = argparse.ArgumentParser()
ap.add_argument("--width", type=int, default=64)
ap.add_argument("--lr", type=float, default=1e-3)
ap.add_argument("--seed", type=int, default=0)
ap.add_argument("--steps", type=int, default=1200)
ap.add_argument("--results")
a = ap.parse_args()

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(a.seed)
y = series()
train, test = y[:, :-14 - 56], y[:, -14 - 56:]
mu, sd = train.mean(1, keepdim=True), train.std(1, keepdim=True)
net = TCN(a.width).to(device)
opt = torch.optim.Adam(net.parameters(), a.lr)
sch = torch.optim.lr_scheduler.OneCycleLR(opt, a.lr, total_steps=a.steps)
norm = (y - mu) / sd
t0 = time.time()
for step in range(1, a.steps + 1):
    r = torch.randint(0, len(y), (128,))
    c = torch.randint(0, train.shape[1] - 70, (128,))
    win = torch.stack([norm[i, j:j + 70] for i, j in zip(r.tolist(), c.tolist())]).to(device)
    loss = nn.functional.smooth_l1_loss(net(win[:, :56]), win[:, 56:])
    opt.zero_grad()
    loss.backward()
    opt.step()
    sch.step()
    if step % 100 == 0:
        print(f"  step {step} loss {loss.item():.4f} ({time.time() - t0:.0f}s)")
with torch.no_grad():
    w = ((test - mu) / sd).to(device)
    mae = (net(w[:, :56]) - w[:, 56:]).abs().mean().item()
print(f"  test mae {mae:.4f}")
if a.results:
    with open(a.results, "a") as f:
        f.write(f"{a.width},{a.lr},{a.seed},{mae:.5f}\n")
