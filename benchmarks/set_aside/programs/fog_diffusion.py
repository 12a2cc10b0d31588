#!/usr/bin/env python
# coding: utf-8

# # DDPM from scratch (small foggy landscapes, 16x16)
# after the annotated diffusion model

# In[ ]:


import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
from tqdm.auto import tqdm

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(42)
T = 200


# In[ ]:


def landscapes(n):
    g = torch.Generator().manual_seed(0)
    x = torch.linspace(0, 1, 16).view(1, 1, 16)
    y = torch.linspace(0, 1, 16).view(1, 16, 1)
    r = lambda: torch.rand(n, 1, 1, generator=g)
    hill = 0.5 + 0.25 * torch.sin(2 * math.pi * (x * (1 + 2 * r()) + r()))
    img = torch.sigmoid(20 * (y - hill)) * (0.4 + 0.6 * r()) + (1 - y) * 0.5 * r()
    sun = torch.exp(-((x - r()) ** 2 + (y - 0.3 * r()) ** 2) / 0.01)
    return ((img + 0.6 * sun).clamp(0, 1) * 2 - 1).unsqueeze(1)


loader = DataLoader(TensorDataset(landscapes(6400)), batch_size=64, shuffle=True, drop_last=True)


# In[ ]:


def cosine_betas(steps, s=0.008):
    t = torch.linspace(0, steps, steps + 1)
    a = torch.cos((t / steps + s) / (1 + s) * math.pi / 2) ** 2
    return (1 - a[1:] / a[:-1]).clamp(1e-4, 0.999)


betas = cosine_betas(T).to(device)
alphas_bar = torch.cumprod(1 - betas, 0)


class ResBlock(nn.Module):
    def __init__(self, i, o, emb=64):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(i, o, 3, padding=1), nn.Conv2d(o, o, 3, padding=1)
        self.n1, self.n2 = nn.GroupNorm(8, o), nn.GroupNorm(8, o)
        self.t = nn.Linear(emb, o)
        self.skip = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x, e):
        h = F.silu(self.n1(self.c1(x))) + self.t(e)[:, :, None, None]
        return F.silu(self.n2(self.c2(h))) + self.skip(x)


class UNet(nn.Module):
    def __init__(self, c=24):
        super().__init__()
        self.emb = nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 64))
        self.inp = nn.Conv2d(1, c, 3, padding=1)
        self.d1, self.d2, self.mid = ResBlock(c, c), ResBlock(c, 2 * c), ResBlock(2 * c, 2 * c)
        self.u2, self.u1 = ResBlock(4 * c, c), ResBlock(2 * c, c)
        self.out = nn.Conv2d(c, 1, 3, padding=1)

    def forward(self, x, t):
        f = torch.exp(torch.arange(16, device=x.device) * -(math.log(10000) / 15))
        e = self.emb(torch.cat([torch.sin(t[:, None] * f), torch.cos(t[:, None] * f)], 1))
        a = self.d1(self.inp(x), e)
        b = self.d2(F.avg_pool2d(a, 2), e)
        m = self.mid(F.avg_pool2d(b, 2), e)
        u = self.u2(torch.cat([F.interpolate(m, scale_factor=2.0), b], 1), e)
        return self.out(self.u1(torch.cat([F.interpolate(u, scale_factor=2.0), a], 1), e))


model = UNet().to(device)
ema = copy.deepcopy(model).requires_grad_(False).eval()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)


# In[ ]:


@torch.no_grad()
def sample(net, n=16):
    x = torch.randn(n, 1, 16, 16, device=device)
    for i in reversed(range(T)):
        t = torch.full((n,), i, device=device)
        eps = net(x, t)
        x = (x - betas[i] / (1 - alphas_bar[i]).sqrt() * eps) / (1 - betas[i]).sqrt()
        if i:
            x += betas[i].sqrt() * torch.randn_like(x)
    return x.clamp(-1, 1)


for epoch in range(60):
    bar = tqdm(loader, desc=f"Epoch {epoch}")
    for (x,) in bar:
        x = x.to(device)
        t = torch.randint(T, (len(x),), device=device)
        noise = torch.randn_like(x)
        ab = alphas_bar[t].view(-1, 1, 1, 1)
        loss = F.mse_loss(model(ab.sqrt() * x + (1 - ab).sqrt() * noise, t), noise)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        with torch.no_grad():
            for p, q in zip(ema.parameters(), model.parameters()):
                p.lerp_(q, 0.005)
        bar.set_postfix(loss=f"{loss.item():.3f}")
    if epoch % 5 == 4:
        s = sample(ema)
        tqdm.write(f"samples after epoch {epoch}: mean {s.mean().item():.3f} std {s.std().item():.3f}")
