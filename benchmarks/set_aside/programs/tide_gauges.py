#!/usr/bin/env python
"""Surge forecasts for tide gauges. Single card: python tide_gauges.py. Several: see run_all.sbatch."""
import argparse
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def setup():
    """Returns (rank, world)."""
    if "WORLD_SIZE" in os.environ and int(os.environ["WORLD_SIZE"]) > 1:
        dist.init_process_group("gloo")
        return dist.get_rank(), dist.get_world_size()
    return 0, 1


class Surge(nn.Module):
    def __init__(self, hidden=128):
        super().__init__()
        self.net = nn.GRU(4, hidden, 1, batch_first=True)
        self.out = nn.Linear(hidden, 6)

    def forward(self, x):
        h, _ = self.net(x)
        return self.out(h[:, -1])


def load(n=6144):
    g = torch.Generator().manual_seed(0)
    t = torch.arange(54.0)
    phase = torch.rand(n, 1, generator=g) * 24.8
    tide = torch.sin(2 * torch.pi * (t + phase) / 12.4) + 0.3 * torch.sin(2 * torch.pi * (t + phase) / 24.8)
    wind = torch.randn(n, 54, generator=g).cumsum(1) / 7
    level = tide + 0.5 * wind.roll(3, 1)
    x = torch.stack([tide, wind, level, torch.ones(n, 54)], -1)[:, :48]
    return TensorDataset(x, level[:, 48:])


def train(args, rank, world):
    data = load()
    sampler = DistributedSampler(data) if world > 1 else None
    loader = DataLoader(data, args.batch // world, shuffle=sampler is None, sampler=sampler)
    model = Surge()
    if world > 1:
        model = nn.parallel.DistributedDataParallel(model)
    optim = torch.optim.Adam(model.parameters(), 2e-3)
    start = time.time()
    for epoch in range(1, args.epochs + 1):
        if sampler:
            sampler.set_epoch(epoch)
        for it, (x, y) in enumerate(loader, 1):
            loss = nn.functional.smooth_l1_loss(model(x), y)
            optim.zero_grad()
            loss.backward()
            optim.step()
            if it % 16 == 0 and rank == 0:
                print(f"Epoch: [{epoch}][{it}/{len(loader)}]\tLoss {loss.item():.4e}\tsamples/s {args.batch * ((epoch - 1) * len(loader) + it) / (time.time() - start):.0f}")
            if time.time() - start > 215:
                return


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=20)
    p.add_argument("--batch", type=int, default=96)
    args = p.parse_args()
    torch.manual_seed(1)
    rank, world = setup()
    print(f"=> rank {rank} of {world} ({' '.join(sys.argv)})")
    train(args, rank, world)
    if dist.is_initialized():
        dist.destroy_process_group()
