"""Diffusion of frost patterns, two ranks, with an average of the weights (EMA).

torchrun --nproc-per-node=2 frost_flowers.py
"""
import copy
import math
import time

import torch
import torch.distributed as dist
from torch import nn

T = 400


class Eps(nn.Module):
    def __init__(self, w=24):
        super().__init__()
        self.t = nn.Sequential(nn.Linear(32, w), nn.SiLU(), nn.Linear(w, 2 * w))
        self.a, self.b = nn.Conv2d(1, w, 3, padding=1), nn.Conv2d(w, 2 * w, 3, 2, 1)
        self.c, self.d = nn.Conv2d(2 * w, 2 * w, 3, padding=1), nn.ConvTranspose2d(2 * w, w, 4, 2, 1)
        self.e = nn.Conv2d(2 * w, 1, 3, padding=1)

    def forward(self, x, t):
        f = t[:, None] / T * torch.exp(torch.arange(16) * (math.log(100) / 16))
        emb = self.t(torch.cat([f.sin(), f.cos()], 1))[:, :, None, None]
        a = nn.functional.silu(self.a(x))
        h = nn.functional.silu(self.b(a) + emb)
        h = h + nn.functional.silu(self.c(h))
        return self.e(torch.cat([nn.functional.silu(self.d(h)), a], 1))


def frost(n, g):
    """Six-fold ferns, more or less."""
    y, x = torch.meshgrid(torch.linspace(-1, 1, 24), torch.linspace(-1, 1, 24), indexing="ij")
    angle, radius = torch.atan2(y, x), (x**2 + y**2).sqrt()
    arms, twist = 3 + torch.randint(0, 4, (n, 1, 1), generator=g), torch.rand(n, 1, 1, generator=g) * 4
    return (torch.cos(arms * angle + twist * radius * 3) * torch.exp(-radius)).unsqueeze(1) * 2


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    net = nn.parallel.DistributedDataParallel(Eps())
    ema = copy.deepcopy(net.module).requires_grad_(False)
    opt = torch.optim.AdamW(net.parameters(), 2e-4)
    g = torch.Generator().manual_seed(rank)
    keep = torch.cos((torch.arange(T) + 1) / (T + 1) * math.pi / 2) ** 2
    t0, step, over = time.time(), 0, torch.zeros(())
    while not over:
        x = frost(16, g)
        t = torch.randint(0, T, (16,), generator=g)
        noise = torch.randn(x.shape, generator=g)
        k = keep[t].view(-1, 1, 1, 1)
        loss = (net(k.sqrt() * x + (1 - k).sqrt() * noise, t.float()) - noise).square().mean()
        opt.zero_grad()
        loss.backward()
        gn = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        with torch.no_grad():
            for p, q in zip(ema.parameters(), net.module.parameters()):
                p.lerp_(q, 0.001)
        step += 1
        if step % 20 == 0:
            over.fill_(time.time() - t0 > 205)
            dist.all_reduce(over)
            if rank == 0:
                print(f"step:{step} | loss:{loss.item():.5f} | grad_norm:{gn:.3f} | ema:0.999", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
