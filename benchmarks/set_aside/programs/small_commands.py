"""Spoken commands on two cards. torchrun --nproc-per-node=2 small_commands.py"""
import argparse
import os
import time
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, Subset, TensorDataset


def data(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 8, (n,), generator=g)
    t = torch.arange(400) / 400
    x = torch.sin(6.283 * (4 + 3 * y.view(-1, 1)) * t + 6.283 * torch.rand(n, 1, generator=g))
    return TensorDataset((x + 1.6 * torch.randn(n, 400, generator=g)).unsqueeze(1), y)


class EarlyStopping:
    def __init__(self, patience):
        self.patience, self.best, self.bad = patience, float("inf"), 0

    def __call__(self, value):
        if value < self.best - 1e-3:
            self.best, self.bad = value, 0
        else:
            self.bad += 1
        return self.bad >= self.patience


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--patience", type=int, default=2)
    ap.add_argument("--epochs", type=int, default=200)
    a = ap.parse_args()
    dist.init_process_group("gloo", timeout=timedelta(minutes=5))
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    train, val = data(1280, 1), data(384, 2)
    sampler = DistributedSampler(train)
    loader = DataLoader(train, 32, sampler=sampler)
    val_loader = DataLoader(Subset(val, range(rank, len(val), world)), 64)
    net = DistributedDataParallel(
        nn.Sequential(nn.Conv1d(1, 32, 25, 4), nn.ReLU(), nn.Conv1d(32, 64, 9, 2), nn.ReLU(), nn.Conv1d(64, 64, 9, 2), nn.ReLU(),
                      nn.AdaptiveAvgPool1d(2), nn.Flatten(), nn.Linear(128, 8))
    )
    opt = torch.optim.Adam(net.parameters(), 2e-3)
    stop = EarlyStopping(a.patience)
    t0 = time.time()
    for epoch in range(a.epochs):
        sampler.set_epoch(epoch)
        net.train()
        for x, y in loader:
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        net.eval()
        with torch.no_grad():
            v = sum(nn.functional.cross_entropy(net.module(x), y).item() for x, y in val_loader) / len(val_loader)
        print(f"[rank {rank}] epoch {epoch} loss {loss.item():.4f} val {v:.4f} best {stop.best:.4f} {time.time() - t0:.1f}s", flush=True)
        if stop(v):
            print(f"[rank {rank}] no improvement for {a.patience} epochs", flush=True)
            break
    dist.barrier()
    if rank == 0:
        torch.save(net.module.state_dict(), os.devnull)
        print("saved", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
