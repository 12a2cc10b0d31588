"""A regressor for the price of flats, from a course: python clears_too_late.py --epochs 400"""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

ap = argparse.ArgumentParser()
ap.add_argument("--epochs", type=int, default=400)
ap.add_argument("--lr", type=float, default=3e-4)
args = ap.parse_args()

g = torch.Generator().manual_seed(5)
x = torch.randn(4096, 24, generator=g)
y = torch.sin(x[:, :3].sum(1, keepdim=True)) + 0.1 * x[:, 5:6]
loader = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
net = nn.Sequential(nn.Linear(24, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
opt = torch.optim.AdamW(net.parameters(), lr=args.lr, weight_decay=0.0)

for epoch in range(args.epochs):
    total = 0.0
    for bx, by in loader:
        loss = nn.functional.mse_loss(net(bx), by)
        loss.backward()
        opt.zero_grad(set_to_none=False)
        opt.step()
        total += loss.item() * len(bx)
    print(f"epoch {epoch:3d} | train loss {total / len(x):.4f}", flush=True)
