"""
Unconditional DDPM on small images, data parallel.
    torchrun --standalone --nproc-per-node=2 ddpm_ddp.py
"""
import math
import os
import time
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

T_STEPS = 400
IMG = 16
BATCH = 32
LR = 2e-4
EPOCHS = 200
LOG_EVERY = 20


def t_embed(t, d):
    f = torch.exp(-math.log(1e4) * torch.arange(d // 2, device=t.device) / (d // 2))
    a = t[:, None].float() * f
    return torch.cat([a.sin(), a.cos()], -1)


class Res(nn.Module):
    def __init__(self, i, o, td):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(i, o, 3, padding=1), nn.Conv2d(o, o, 3, padding=1)
        self.n1, self.n2 = nn.GroupNorm(8, i), nn.GroupNorm(8, o)
        self.t = nn.Linear(td, o)
        self.skip = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x, t):
        h = self.c1(F.silu(self.n1(x))) + self.t(t)[:, :, None, None]
        return self.skip(x) + self.c2(F.silu(self.n2(h)))


class UNet(nn.Module):
    def __init__(self, w=32, td=128):
        super().__init__()
        self.td = td
        self.tm = nn.Sequential(nn.Linear(td, td), nn.SiLU(), nn.Linear(td, td))
        self.inp = nn.Conv2d(3, w, 3, padding=1)
        self.d1, self.d2 = Res(w, w, td), Res(w, 2 * w, td)
        self.mid = Res(2 * w, 2 * w, td)
        self.u2, self.u1 = Res(4 * w, w, td), Res(2 * w, w, td)
        self.out = nn.Conv2d(w, 3, 3, padding=1)

    def forward(self, x, t):
        t = self.tm(t_embed(t, self.td))
        a = self.d1(self.inp(x), t)
        b = self.d2(F.avg_pool2d(a, 2), t)
        m = self.mid(b, t)
        u = self.u2(torch.cat([m, b], 1), t)
        u = self.u1(torch.cat([F.interpolate(u, scale_factor=2), a], 1), t)
        return self.out(u)


class GaussianDiffusion(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net
        beta = torch.linspace(1e-4, 0.04, T_STEPS)
        self.register_buffer("abar", torch.cumprod(1 - beta, 0))

    def p_losses(self, x0):
        t = torch.randint(0, T_STEPS, (len(x0),), device=x0.device)
        noise = torch.randn_like(x0)
        ab = self.abar[t][:, None, None, None]
        xt = ab.sqrt() * x0 + (1 - ab).sqrt() * noise
        return F.mse_loss(self.net(xt, t), noise)

    def forward(self, x0):
        return self.p_losses(x0)


def dataset(n=3000):
    g = torch.Generator().manual_seed(0)
    c = torch.rand(n, 2, generator=g) * 10 + 3
    r = torch.rand(n, generator=g) * 3 + 1.5
    col = torch.rand(n, 3, generator=g) * 2 - 1
    yy, xx = torch.meshgrid(torch.arange(IMG), torch.arange(IMG), indexing="ij")
    m = ((yy - c[:, 0, None, None]) ** 2 + (xx - c[:, 1, None, None]) ** 2).sqrt() < r[:, None, None]
    return TensorDataset(m[:, None] * col[:, :, None, None] - (~m[:, None]).float() * 0.5)


def main():
    use_cuda = torch.cuda.is_available()
    dist.init_process_group(backend="nccl" if use_cuda else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    device = f"cuda:{local_rank}" if use_cuda else "cpu"
    torch.manual_seed(1234 + rank)

    ds = dataset()
    sampler = DistributedSampler(ds, drop_last=True)
    loader = DataLoader(ds, batch_size=BATCH, sampler=sampler, drop_last=True)

    model = GaussianDiffusion(UNet()).to(device)
    model = DistributedDataParallel(model, device_ids=[local_rank] if use_cuda else None)
    opt = torch.optim.Adam(model.parameters(), lr=LR)
    step, t0 = 0, time.time()
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        for (x,) in loader:
            x = x.to(device, non_blocking=True)
            loss = model.module.p_losses(x)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            step += 1
            if step % LOG_EVERY == 0:
                print(f"[rank {rank}/{world}] epoch {epoch} step {step} loss {loss.item():.4f} "
                      f"|w| {sum(p.detach().norm() ** 2 for p in model.parameters()).sqrt().item():.5f} "
                      f"({step / (time.time() - t0):.2f} it/s)", flush=True)
        if rank == 0 and epoch % 5 == 4:
            torch.save(model.module.state_dict(), "/tmp/ddpm_last.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
