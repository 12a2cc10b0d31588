"""Pressure field around a profile from its shape and inflow: Fourier layers, data parallel.

    torchrun --nproc-per-node=2 airfoil_surrogate.py --epochs 30
"""
import argparse
import csv
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def simulate(n, size, seed):
    """Potential-flow-like fields: dipole and vortex behind a random ellipse."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[-1:1:size * 1j, -1:1:size * 1j].astype(np.float32)
    a, b = rng.uniform(0.2, 0.5, n), rng.uniform(0.05, 0.2, n)
    alpha, speed = rng.uniform(-0.3, 0.3, n), rng.uniform(0.6, 1.4, n)
    x, y = np.empty((n, 3, size, size), np.float32), np.empty((n, 1, size, size), np.float32)
    for i in range(n):
        c, s = np.cos(alpha[i]), np.sin(alpha[i])
        u, v = c * xx + s * yy, -s * xx + c * yy
        r2 = (u / a[i]) ** 2 + (v / b[i]) ** 2
        body = r2 < 1
        d2 = u ** 2 + v ** 2 + 0.02
        vel = speed[i] * (1 - a[i] * b[i] * (u ** 2 - v ** 2) / d2 ** 2) + 2.0 * alpha[i] * v / d2
        p = 0.5 * (speed[i] ** 2 - vel ** 2)
        p[body] = 0
        x[i] = np.stack([body, np.full_like(xx, speed[i] * c), np.full_like(xx, speed[i] * s)])
        y[i, 0] = np.tanh(p)
    return TensorDataset(torch.from_numpy(x), torch.from_numpy(y))


class SpectralConv(nn.Module):
    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        self.weight = nn.Parameter(torch.randn(2, width, width, modes, modes, 2) / width)

    def forward(self, x):
        n, c, h, w = x.shape
        m = self.modes
        f = torch.fft.rfft2(x)
        out = torch.zeros(n, c, h, w // 2 + 1, dtype=f.dtype, device=x.device)
        wt = torch.view_as_complex(self.weight)
        out[:, :, :m, :m] = torch.einsum("nihw,iohw->nohw", f[:, :, :m, :m], wt[0])
        out[:, :, -m:, :m] = torch.einsum("nihw,iohw->nohw", f[:, :, -m:, :m], wt[1])
        return torch.fft.irfft2(out, s=(h, w))


class FNO(nn.Module):
    def __init__(self, width=24, modes=10, depth=4):
        super().__init__()
        self.lift = nn.Conv2d(5, width, 1)
        self.spectral = nn.ModuleList(SpectralConv(width, modes) for _ in range(depth))
        self.local = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(depth))
        self.proj = nn.Sequential(nn.Conv2d(width, 64, 1), nn.GELU(), nn.Conv2d(64, 1, 1))

    def forward(self, x):
        n, _, h, w = x.shape
        gy = torch.linspace(0, 1, h, device=x.device).view(1, 1, h, 1).expand(n, 1, h, w)
        gx = torch.linspace(0, 1, w, device=x.device).view(1, 1, 1, w).expand(n, 1, h, w)
        x = self.lift(torch.cat([x, gy, gx], 1))
        for s, l in zip(self.spectral, self.local):
            x = x + F.gelu(s(x) + l(x))
        return self.proj(x)


def relative_l2(pred, target):
    return ((pred - target).flatten(1).norm(dim=1) / target.flatten(1).norm(dim=1)).mean()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=40)
    ap.add_argument("--samples", type=int, default=1024)
    ap.add_argument("--size", type=int, default=48)
    ap.add_argument("--batch-size", type=int, default=16)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--out", default=os.path.join(tempfile.gettempdir(), "airfoil_surrogate"))
    args = ap.parse_args()

    local_rank = int(os.environ.get("LOCAL_RANK", 0))
    use_cuda = torch.cuda.is_available()
    dist.init_process_group(backend="nccl" if use_cuda else "gloo")
    device = f"cuda:{local_rank}" if use_cuda else "cpu"
    rank = dist.get_rank()
    torch.manual_seed(rank)
    is_main = rank == 0

    train, test = simulate(args.samples, args.size, 0), simulate(128, args.size, 1)
    train_sampler = DistributedSampler(train, shuffle=True, seed=17, drop_last=True)
    test_sampler = DistributedSampler(test, shuffle=False)
    train_loader = DataLoader(train, args.batch_size, sampler=train_sampler, drop_last=True, pin_memory=use_cuda)
    test_loader = DataLoader(test, 32, sampler=test_sampler)

    model = FNO().to(device)
    model = DistributedDataParallel(model, device_ids=[local_rank] if use_cuda else None)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs)
    if is_main:
        Path(args.out).mkdir(exist_ok=True, parents=True)
        table = open(Path(args.out) / "history.csv", "w", newline="", buffering=1)
        history = csv.writer(table)
        history.writerow(["epoch", "train_l2", "test_l2", "lr", "seconds"])
        print(f"{len(train)} fields, {len(train_loader)} batches per rank and epoch, {dist.get_world_size()} ranks on {device}", flush=True)

    for epoch in range(args.epochs):
        model.train()
        t0, total = time.time(), torch.zeros(1, device=device)
        for i, (x, y) in enumerate(train_loader):
            x, y = x.to(device), y.to(device)
            loss = relative_l2(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            total += loss.detach()
            if is_main and (i + 1) % 8 == 0:
                print(f"epoch {epoch:03d} batch {i + 1}/{len(train_loader)} rel_l2 {loss.item():.4f}", flush=True)
        sched.step()
        model.eval()
        err = torch.zeros(1, device=device)
        with torch.no_grad():
            for x, y in test_loader:
                err += relative_l2(model(x.to(device)), y.to(device))
        stats = torch.cat([total / len(train_loader), err / len(test_loader)])
        dist.all_reduce(stats)
        stats /= dist.get_world_size()
        if is_main:
            train_l2, test_l2 = stats.tolist()
            print(f"epoch {epoch:03d} train {train_l2:.4f} test {test_l2:.4f} lr {sched.get_last_lr()[0]:.1e} {time.time() - t0:.1f}s", flush=True)
            history.writerow([epoch, train_l2, test_l2, sched.get_last_lr()[0], time.time() - t0])
            torch.save(model.module.state_dict(), Path(args.out) / "fno.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
