# DDPM on marbled paper (32x32), DDP.   torchrun --nproc-per-node 2 marbled_paper.py
import os
import tempfile
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

T = 200
BATCH = 8
SAMPLE_EVERY = 60
STEPS = 50000

dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(100 + rank)
outdir = tempfile.mkdtemp(prefix="marbled_") if rank == 0 else None

betas = torch.linspace(1e-4, 0.03, T)
alphas = 1 - betas
abar = alphas.cumprod(0)


def marbled(n):
    """Wavy coloured veins."""
    y, x = torch.meshgrid(torch.linspace(-1, 1, 32), torch.linspace(-1, 1, 32), indexing="ij")
    f = 2 + 3 * torch.rand(n, 3, 1, 1)
    phase = 6.28 * torch.rand(n, 3, 1, 1)
    warp = torch.sin(3 * y + 6.28 * torch.rand(n, 1, 1, 1))
    return torch.sin(f * (x + 0.4 * warp) * 3 + phase)


class TimeEmbedding(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.register_buffer("freq", torch.exp(torch.arange(0, dim, 2) * (-6.0 / dim)))
        self.mlp = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))

    def forward(self, t):
        a = t[:, None] * self.freq
        return self.mlp(torch.cat([a.sin(), a.cos()], 1))


class ResBlock(nn.Module):
    def __init__(self, i, o, dim):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(4, i), nn.Conv2d(i, o, 3, padding=1)
        self.emb = nn.Linear(dim, o)
        self.n2, self.c2 = nn.GroupNorm(4, o), nn.Conv2d(o, o, 3, padding=1)
        self.skip = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x, e):
        h = self.c1(F.silu(self.n1(x))) + self.emb(e)[:, :, None, None]
        return self.c2(F.silu(self.n2(h))) + self.skip(x)


class Denoiser(nn.Module):
    def __init__(self, ch=24, dim=64):
        super().__init__()
        self.time = TimeEmbedding(dim)
        self.inp = nn.Conv2d(3, ch, 3, padding=1)
        self.b1, self.b2 = ResBlock(ch, ch, dim), ResBlock(ch, 2 * ch, dim)
        self.mid = ResBlock(2 * ch, 2 * ch, dim)
        self.b3, self.b4 = ResBlock(4 * ch, ch, dim), ResBlock(2 * ch, ch, dim)
        self.out = nn.Conv2d(ch, 3, 3, padding=1)

    def forward(self, x, t):
        e = self.time(t.float())
        a = self.b1(self.inp(x), e)
        b = self.b2(F.avg_pool2d(a, 2), e)
        c = self.mid(F.avg_pool2d(b, 2), e)
        h = self.b3(torch.cat([F.interpolate(c, scale_factor=2), b], 1), e)
        h = self.b4(torch.cat([F.interpolate(h, scale_factor=2), a], 1), e)
        return self.out(h)


@torch.no_grad()
def sample(net, n=8):
    net.eval()
    x = torch.randn(n, 3, 32, 32)
    for t in reversed(range(T)):
        eps = net(x, torch.full((n,), t))
        x = (x - betas[t] / (1 - abar[t]).sqrt() * eps) / alphas[t].sqrt()
        if t > 0:
            x = x + betas[t].sqrt() * torch.randn_like(x)
    net.train()
    return x.clamp(-1, 1)


model = DDP(Denoiser())
opt = torch.optim.AdamW(model.parameters(), lr=2e-4)
ema = {k: v.clone() for k, v in model.module.state_dict().items()}
began = time.time()

for step in range(1, STEPS + 1):
    x0 = marbled(BATCH)
    t = torch.randint(0, T, (BATCH,))
    noise = torch.randn_like(x0)
    a = abar[t][:, None, None, None]
    loss = F.mse_loss(model(a.sqrt() * x0 + (1 - a).sqrt() * noise, t), noise)
    opt.zero_grad(set_to_none=True)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    opt.step()
    for k, v in model.module.state_dict().items():
        ema[k].lerp_(v, 0.005)
    if rank == 0 and step % 5 == 0:
        print(f"step {step:6d} | loss {loss.item():.4f} | {time.time() - began:.0f}s")
    if rank == 0 and step % SAMPLE_EVERY == 0:
        images = sample(model.module)
        torch.save(images, os.path.join(outdir, "samples.pt"))
