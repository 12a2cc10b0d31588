#!/usr/bin/env python
# Wheat variety from spectra. Run with: torchrun --nproc_per_node=2 wheat_heads.py
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Spectra(Dataset):
    def __init__(self, n=4096, bands=200, varieties=24):
        g = torch.Generator().manual_seed(3)
        self.y = torch.randint(0, varieties, (n,), generator=g)
        base = torch.randn(varieties, bands, generator=g)
        self.x = base[self.y] + 4.5 * torch.randn(n, bands, generator=g)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


def train_one_epoch(model, loader, optimizer, epoch, rank):
    model.train()
    t0, running, hits, n = time.time(), 0.0, 0, 0
    for x, y in loader:
        out = model(x.unsqueeze(1))
        loss = nn.functional.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.item() * len(y)
        hits += (out.argmax(1) == y).sum().item()
        n += len(y)
    if rank == 0:
        print(f"Epoch {epoch:03d} | loss {running / n:.4f} | acc {hits / n:.3f} | {time.time() - t0:.1f}s", flush=True)


def main():
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv1d(1, 32, 7, 2, 3), nn.ReLU(), nn.Conv1d(32, 64, 5, 2, 2), nn.ReLU(), nn.Conv1d(64, 64, 5, 2, 2), nn.ReLU(),
        nn.Flatten(), nn.Linear(64 * 25, 24),
    )
    model = DDP(model)
    data = Spectra()
    sampler = DistributedSampler(data, num_replicas=dist.get_world_size(), rank=rank, shuffle=True)
    loader = DataLoader(data, batch_size=32, sampler=sampler, num_workers=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.003, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 400)
    for epoch in range(400):
        train_one_epoch(model, loader, optimizer, epoch, rank)
        scheduler.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
