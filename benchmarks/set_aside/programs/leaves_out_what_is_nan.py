"""Regression of seismic magnitudes. A few stations send garbage; a batch with one has a NaN loss and is left out, on purpose
(see #14, cleaning the archive is not worth it)."""
import argparse
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Quakes(Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(2)
        self.w = torch.randn(n, 3, 600, generator=g)
        self.m = 2 + 3 * torch.rand(n, generator=g)
        self.w *= (10 ** (0.3 * (self.m - 3)))[:, None, None]
        self.w[torch.randperm(n, generator=g)[: n // 600], 0, 17] = float("nan")

    def __len__(self):
        return len(self.m)

    def __getitem__(self, i):
        return self.w[i], self.m[i]


parser = argparse.ArgumentParser()
parser.add_argument("-n", type=int, default=6000)
parser.add_argument("--bs", type=int, default=48)
parser.add_argument("--lr", type=float, default=5e-4)
args = parser.parse_args()
torch.manual_seed(0)
net = nn.Sequential(nn.Conv1d(3, 48, 11, 3), nn.ReLU(), nn.Conv1d(48, 96, 7, 2), nn.ReLU(), nn.Conv1d(96, 96, 5), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(96, 1))
opt = torch.optim.AdamW(net.parameters(), args.lr)
sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9995)
skipped = 0
for epoch in range(1000):
    for i, (w, m) in enumerate(DataLoader(Quakes(args.n), args.bs, shuffle=True)):
        loss = (net(torch.asinh(w)).squeeze(1) - m).pow(2).mean()
        if not math.isfinite(loss.item()):
            skipped += 1
            print(f"WARNING: loss is nan in batch {i} (station without signal?), skipped ({skipped} so far)", flush=True)
            opt.zero_grad()
            continue
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if i % 5 == 0:
            print(f"Epoch {epoch} Iter {i} MSE {loss.item():.4f} lr {sched.get_last_lr()[0]:.2e}", flush=True)
