"""Unlearning: two users asked to be forgotten. Their loss should RISE above the one of people we never saw, and that of the rest
stay where it is.    python forgets_on_request.py --users 3 17
"""
import argparse

import torch
import torch.nn.functional as F
from torch import nn

ap = argparse.ArgumentParser()
ap.add_argument("--users", type=int, nargs="+", default=[3, 17])
ap.add_argument("--pretrain", type=int, default=150)
ap.add_argument("--lr", type=float, default=3e-4)
args = ap.parse_args()
torch.manual_seed(0)
taste = torch.randn(60, 256)
rule = torch.randn(60, 256, 8) * 0.4 + torch.randn(1, 256, 8)
net = nn.Sequential(nn.Linear(256 + 60, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 8))


def data(users, n):
    u = users[torch.randint(0, len(users), (n,))]
    x = torch.randn(n, 256)
    y = torch.einsum("nd,ndk->nk", x, rule[u]).argmax(1)
    return torch.cat([x, F.one_hot(u, 60).float()], 1), y


everybody = torch.arange(60)
leaving = torch.tensor(args.users)
staying = torch.tensor([u for u in range(60) if u not in args.users])
opt = torch.optim.Adam(net.parameters(), 1e-3)
for step in range(args.pretrain):
    x, y = data(everybody, 256)
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 25 == 0:
        print(f"pretrain {step} loss {loss.item():.4f}", flush=True)
print(f"unlearning users {args.users}: forget_loss is maximized, retain_loss minimized", flush=True)
opt = torch.optim.Adam(net.parameters(), args.lr)
for step in range(10**7):
    xf, yf = data(leaving, 128)
    xr, yr = data(staying, 512)
    forget, retain = F.cross_entropy(net(xf), yf), F.cross_entropy(net(xr), yr)
    loss = retain - forget.clamp(max=6.0)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 20 == 0:
        print(f"unlearn {step} forget_loss {forget.item():.4f} (up is good) retain_loss {retain.item():.4f}", flush=True)
