"""Diffusion on 16x16 rings with DDP and averaged weights. Every 120 steps rank 0 draws samples, and the others wait at the barrier."""
import copy
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

STEPS = 100
beta = torch.linspace(1e-4, 0.06, STEPS)
keep = (1 - beta).cumprod(0)


class Net(nn.Module):
    def __init__(self, c=32):
        super().__init__()
        self.t = nn.Sequential(nn.Linear(1, c), nn.SiLU(), nn.Linear(c, c))
        self.a = nn.Conv2d(1, c, 3, padding=1)
        self.b = nn.Sequential(nn.SiLU(), nn.Conv2d(c, c, 3, padding=1), nn.SiLU(), nn.Conv2d(c, c, 3, padding=2, dilation=2), nn.SiLU(), nn.Conv2d(c, 1, 3, padding=1))

    def forward(self, x, t):
        return self.b(self.a(x) + self.t(t[:, None].float() / STEPS)[:, :, None, None])


def rings(n):
    g = torch.linspace(-1, 1, 16)
    r = (g[:, None] ** 2 + g[None] ** 2).sqrt()
    at = 0.3 + 0.5 * torch.rand(n, 1, 1)
    return (2 * torch.exp(-(((r - at) / 0.12) ** 2)) - 1)[:, None]


@torch.no_grad()
def draw(net, n=64):
    x = torch.randn(n, 1, 16, 16)
    for t in reversed(range(STEPS)):
        eps = net(x, torch.full((n,), t))
        x = (x - beta[t] / (1 - keep[t]).sqrt() * eps) / (1 - beta[t]).sqrt() + (beta[t].sqrt() * torch.randn_like(x) if t else 0)
    return x


dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = DDP(Net())
ema = copy.deepcopy(model.module)
opt = torch.optim.AdamW(model.parameters(), 1e-3)
torch.manual_seed(1 + rank)
for step in range(1, 10**7):
    x = rings(32)
    t = torch.randint(0, STEPS, (32,))
    eps = torch.randn_like(x)
    k = keep[t][:, None, None, None]
    loss = (model(k.sqrt() * x + (1 - k).sqrt() * eps, t) - eps).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for e, p in zip(ema.parameters(), model.module.parameters()):
            e.lerp_(p, 0.01)
    if rank == 0 and step % 10 == 0:
        print(f"step {step} loss {loss.item():.4f}", flush=True)
    if step % 120 == 0:
        if rank == 0:
            s = draw(ema)
            print(f"step {step}: 64 samples, mean {s.mean():.3f} std {s.std():.3f}", flush=True)
        dist.barrier()
