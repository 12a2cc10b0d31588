"""Rectified flow on 2-d data lifted to 128 dimensions. Samples from the averaged weights every 500 steps (takes about a second)."""
import copy
import math
import torch
from torch import nn

torch.manual_seed(0)
LIFT = torch.linalg.qr(torch.randn(128, 128))[0][:2]


def moons(n):
    t = torch.rand(n) * math.pi
    up = torch.rand(n) < 0.5
    x = torch.where(up, t.cos(), 1 - t.cos())
    y = torch.where(up, t.sin(), 0.5 - t.sin())
    return (torch.stack([x, y], 1) + 0.05 * torch.randn(n, 2)) @ LIFT


class Velocity(nn.Module):
    def __init__(self, d=128, w=384):
        super().__init__()
        self.freq = nn.Parameter(torch.randn(32) * 4, requires_grad=False)
        self.inp = nn.Linear(d + 64, w)
        self.mid = nn.ModuleList(nn.Sequential(nn.LayerNorm(w), nn.Linear(w, w), nn.SiLU(), nn.Linear(w, w)) for _ in range(3))
        self.out = nn.Linear(w, d)

    def forward(self, x, t):
        e = t[:, None] * self.freq * 2 * math.pi
        h = self.inp(torch.cat([x, e.sin(), e.cos()], 1))
        for block in self.mid:
            h = h + block(h)
        return self.out(h)


net = Velocity()
ema = copy.deepcopy(net).requires_grad_(False)
opt = torch.optim.AdamW(net.parameters(), 6e-4)
running = None


@torch.no_grad()
def sample(n=256, steps=40):
    x = torch.randn(n, 128)
    for i in range(steps):
        x = x + ema(x, torch.full((n,), i / steps)) / steps
    off = (x - x @ LIFT.T @ LIFT).norm(dim=1).mean().item()
    near = torch.cdist(x @ LIFT.T, moons(1000) @ LIFT.T).min(1).values.mean().item()
    return off, near


for step in range(1, 1_000_000):
    x1 = moons(192)
    x0 = torch.randn_like(x1)
    t = torch.rand(len(x1))
    xt = (1 - t[:, None]) * x0 + t[:, None] * x1
    loss = (net(xt, t) - (x1 - x0)).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for a, b in zip(ema.parameters(), net.parameters()):
            a.lerp_(b, 0.005)
    running = loss.item() if running is None else 0.98 * running + 0.02 * loss.item()
    if step % 50 == 0:
        print("step", step, "| loss", round(running, 4), "| lr", opt.param_groups[0]["lr"], flush=True)
    if step % 500 == 0:
        off, near = sample()
        print(f"   samples @ {step}: off-plane {off:.3f}, distance to data {near:.3f}", flush=True)
