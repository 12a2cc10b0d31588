"""DDPM on 16x16 sprites. Trains on all GPUs, then draws a grid of samples.
torchrun --standalone --nproc-per-node=2 ddpm_sprites.py
"""
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

T = 200
EPOCHS = 8
BATCH = 32
OUT = Path("runs/sprites")

betas = torch.linspace(1e-4, 0.03, T)
alphas = 1 - betas
abar = torch.cumprod(alphas, 0)


def sprites(n=1600):
    g = torch.Generator().manual_seed(5)
    half = (torch.rand(n, 3, 8, 4, generator=g) > 0.5).float()
    img = torch.cat([half, half.flip(-1)], -1)
    img = F.interpolate(img, scale_factor=2)
    return img * 2 - 1


class ResBlock(nn.Module):
    def __init__(self, i, o, t):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(i, o, 3, padding=1), nn.Conv2d(o, o, 3, padding=1)
        self.n1, self.n2 = nn.GroupNorm(4, i) if i % 4 == 0 else nn.Identity(), nn.GroupNorm(4, o)
        self.t = nn.Linear(t, o)
        self.skip = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x, t):
        h = self.c1(F.silu(self.n1(x))) + self.t(t)[:, :, None, None]
        return self.c2(F.silu(self.n2(h))) + self.skip(x)


class UNet(nn.Module):
    def __init__(self, c=48, t=96):
        super().__init__()
        self.time = nn.Sequential(nn.Embedding(T, t), nn.Linear(t, t), nn.SiLU(), nn.Linear(t, t))
        self.inp = nn.Conv2d(3, c, 3, padding=1)
        self.down = ResBlock(c, c, t)
        self.mid1, self.mid2 = ResBlock(c, 2 * c, t), ResBlock(2 * c, 2 * c, t)
        self.up = ResBlock(3 * c, c, t)
        self.out = nn.Conv2d(c, 3, 3, padding=1)

    def forward(self, x, t):
        t = self.time(t)
        h = self.down(self.inp(x), t)
        m = self.mid2(self.mid1(F.avg_pool2d(h, 2), t), t)
        return self.out(F.silu(self.up(torch.cat([h, F.interpolate(m, scale_factor=2)], 1), t)))


def q_sample(x, t, eps):
    a = abar.to(x.device)[t][:, None, None, None]
    return a.sqrt() * x + (1 - a).sqrt() * eps


@torch.no_grad()
def sample(net, n, device):
    x = torch.randn(n, 3, 16, 16, device=device)
    for i in reversed(range(T)):
        t = torch.full((n,), i, device=device)
        eps = net(x, t)
        x = (x - betas[i] / (1 - abar[i]).sqrt() * eps) / alphas[i].sqrt()
        if i:
            x = x + betas[i].sqrt() * torch.randn_like(x)
    return x


def train(device, rank, local_rank):
    data = TensorDataset(sprites())
    sampler = DistributedSampler(data)
    loader = DataLoader(data, BATCH, sampler=sampler, drop_last=True)
    net = DDP(UNet().to(device), device_ids=[local_rank] if device.type == "cuda" else None)
    opt = torch.optim.Adam(net.parameters(), lr=4e-4)
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        t0, total = time.time(), 0.0
        for i, (x,) in enumerate(loader):
            x = x.to(device)
            t = torch.randint(0, T, (len(x),), device=device)
            eps = torch.randn_like(x)
            loss = F.mse_loss(net(q_sample(x, t, eps), t), eps)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.item()
            if rank == 0 and i % 5 == 0:
                print(f"epoch {epoch} {i}/{len(loader)} mse {total / (i + 1):.4f}", flush=True)
        if rank == 0:
            print(f"epoch {epoch} mse {total / len(loader):.4f} ({time.time() - t0:.1f}s), saved", flush=True)
            OUT.mkdir(parents=True, exist_ok=True)
            torch.save(net.state_dict(), OUT / "unet.pt")


def main():
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank, local_rank = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    device = torch.device(f"cuda:{local_rank}" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(rank)
    if rank == 0:
        print(f"training with {dist.get_world_size()} ranks", flush=True)
    train(device, rank, local_rank)
    dist.barrier()

    if rank == 0:
        print("drawing samples", flush=True)
    net = UNet().to(device)
    net.load_state_dict(torch.load(OUT / "unet.pt", map_location=device))
    net.eval()
    torch.save(sample(net, 32, device).cpu(), OUT / f"samples_{rank}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
