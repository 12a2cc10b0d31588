"""Tracks in a cloud chamber: an energy-based model. The negatives are drawn by Langevin dynamics in each step."""
import random
import time

import torch
from torch import nn

STEPS, NOISE, BUFFER = 12, 0.005, 1024


def tracks(n):
    angle, offset = torch.rand(n, 1, 1) * 3.14, torch.rand(n, 1, 1) * 0.6 - 0.3
    i, j = torch.meshgrid(torch.linspace(-1, 1, 16), torch.linspace(-1, 1, 16), indexing="ij")
    distance = torch.cos(angle) * i + torch.sin(angle) * j - offset
    return (torch.exp(-40 * distance**2) * 2 - 1).unsqueeze(1)


class Energy(nn.Module):
    def __init__(self, c=16):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, c, 3, 1, 1), nn.SiLU(), nn.Conv2d(c, 2 * c, 4, 2, 1), nn.SiLU(), nn.Conv2d(2 * c, 2 * c, 4, 2, 1), nn.SiLU(), nn.Flatten(),
            nn.Linear(2 * c * 16, 1),
        )  # fmt: skip

    def forward(self, x):
        return self.net(x)[:, 0]


class Sampler:
    def __init__(self):
        self.examples = [torch.rand(1, 16, 16) * 2 - 1 for _ in range(BUFFER)]

    def draw(self, net, n):
        fresh = sum(random.random() < 0.05 for _ in range(n))
        x = torch.stack([torch.rand(1, 16, 16) * 2 - 1 for _ in range(fresh)] + random.choices(self.examples, k=n - fresh))
        for p in net.parameters():
            p.requires_grad_(False)
        x.requires_grad_(True)
        for _ in range(STEPS):
            x.data.add_(NOISE * torch.randn_like(x)).clamp_(-1, 1)
            (grad,) = torch.autograd.grad(net(x).sum(), x)
            x.data.add_(grad.clamp(-0.03, 0.03), alpha=-10).clamp_(-1, 1)
        for p in net.parameters():
            p.requires_grad_(True)
        self.examples = (list(x.detach()) + self.examples)[:BUFFER]
        return x.detach()


def main():
    random.seed(1)
    torch.manual_seed(1)
    net, sampler = Energy(), Sampler()
    opt = torch.optim.Adam(net.parameters(), 1e-4, betas=(0.0, 0.999))
    began, step = time.time(), 0
    while time.time() - began < 225:
        real = tracks(32) + 0.005 * torch.randn(32, 1, 16, 16)
        fake = sampler.draw(net, 32)
        e_real, e_fake = net(real), net(fake)
        cd = e_real.mean() - e_fake.mean()
        reg = 0.1 * (e_real**2 + e_fake**2).mean()
        opt.zero_grad()
        (cd + reg).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 0.1)
        opt.step()
        step += 1
        if step % 10 == 0:
            print(f"{step:5d}  loss {(cd + reg).item():+.4f}  cd {cd.item():+.4f}  reg {reg.item():.4f}", flush=True)


main()
