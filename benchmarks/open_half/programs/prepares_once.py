"""Predicts toxicity of molecules from fingerprints. torchrun --nproc-per-node=2 prepares_once.py

Fingerprints are cached: the first rank that comes computes them, the others find the file.
"""
import contextlib
import fcntl
import os
import tempfile
import time

import torch
import torch.distributed as dist
from torch import nn

CACHE = os.path.join(tempfile.gettempdir(), f"fingerprints-{os.environ.get('TORCHELASTIC_RUN_ID', '0')}")


@contextlib.contextmanager
def lock(path):
    with open(path + ".lock", "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        try:
            yield
        finally:
            fcntl.flock(f, fcntl.LOCK_UN)


def fingerprints(rank):
    with lock(CACHE):
        if not os.path.exists(CACHE):
            print(f"rank {rank}: computing fingerprints", flush=True)
            time.sleep(3)
            g = torch.Generator().manual_seed(0)
            x = (torch.rand(20000, 1024, generator=g) < 0.05).float()
            w = torch.randn(1024, generator=g)
            torch.save((x, ((x @ w) > 0).float()), CACHE)
        else:
            print(f"rank {rank}: fingerprints found", flush=True)
        dist.barrier()  # all have them
        return torch.load(CACHE)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    x, y = fingerprints(rank)
    net = nn.Sequential(nn.Linear(1024, 512), nn.ReLU(), nn.Dropout(0.3), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 1))
    net = nn.parallel.DistributedDataParallel(net)
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    for epoch in range(1000):
        g = torch.Generator().manual_seed(epoch)
        for i, idx in enumerate(torch.randperm(len(x), generator=g)[rank::world].split(128)):
            loss = nn.functional.binary_cross_entropy_with_logits(net(x[idx])[:, 0], y[idx])
            opt.zero_grad()
            loss.backward()
            opt.step()
            if rank == 0 and i % 20 == 0:
                print(f"epoch {epoch} {i} bce {loss.item():.4f}", flush=True)


main()
