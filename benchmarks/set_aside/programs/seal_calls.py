"""Seal calls under the ice: which of nine types?

The workers are bound to cores, each to those of its socket, as the tuning guide of our server recommends (16 cores a socket).
"""
import math
import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

CORES_PER_SOCKET, WORKERS = 16, 4


def bind(worker_id):
    socket = worker_id % 2
    first = socket * CORES_PER_SOCKET % os.cpu_count()
    os.sched_setaffinity(0, {first + worker_id // CORES_PER_SOCKET})
    torch.set_num_threads(1)


class Calls(IterableDataset):
    """Chirps in noise; features are made here: a filter bank, one frame after the other."""

    def __iter__(self):
        g = torch.Generator().manual_seed(100 + get_worker_info().id)
        bank = torch.stack([torch.cos(torch.arange(200.0) * math.pi * (k + 1) / 80) for k in range(48)])
        while True:
            y = int(torch.randint(0, 9, (), generator=g))
            t = torch.arange(8000.0)
            rate, base = (y % 3 - 1) * 2e-5, 0.1 + 0.12 * (y // 3)
            x = torch.sin(2 * math.pi * (base + rate * t) * t / 2) + 0.6 * torch.randn(8000, generator=g)
            frames = [(bank * x[i : i + 200]).sum(1).abs() for i in range(0, 7800, 20)]
            yield torch.stack(frames, 1).log1p(), y


net = nn.Sequential(nn.Conv1d(48, 64, 5, 2), nn.ReLU(), nn.Conv1d(64, 64, 5, 2), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(256, 9))

if __name__ == "__main__":
    torch.manual_seed(0)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    loader = DataLoader(Calls(), batch_size=16, num_workers=WORKERS, worker_init_fn=bind, prefetch_factor=4)
    t0 = time.time()
    print(f"{'step':>6} {'loss':>8} {'acc':>6} {'calls/s':>8}", flush=True)
    for step, (x, y) in enumerate(loader, 1):
        out = net(x)
        loss = nn.functional.cross_entropy(out, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            print(f"{step:6d} {loss.item():8.4f} {(out.argmax(1) == y).float().mean().item():6.2f} {16 * step / (time.time() - t0):8.1f}", flush=True)
        if time.time() - t0 > 205:
            break
