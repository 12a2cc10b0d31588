"""Flares from magnetograms: does an active region flare within a day?

torchrun --nproc_per_node=2 sunspot_maps.py
"""
import json
import os
import shutil
import signal
import sys
import tempfile
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

rank = int(os.environ.get("RANK", 0))
local_rank = int(os.environ.get("LOCAL_RANK", 0))


def magnetograms(n, seed, size=32):
    """Two polarities; the nearer and the more mixed they are, the more probable is a flare."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:size, 0:size]
    maps, flare = np.empty((n, 1, size, size), np.float32), np.empty(n, np.float32)
    for i in range(n):
        d, a = rng.uniform(2, 14), rng.uniform(0, 2 * np.pi)
        cx, cy, s = rng.uniform(12, 20), rng.uniform(12, 20), rng.uniform(2, 5)
        dx, dy = d / 2 * np.cos(a), d / 2 * np.sin(a)
        b = np.exp(-((x - cx - dx) ** 2 + (y - cy - dy) ** 2) / (2 * s * s))
        b -= np.exp(-((x - cx + dx) ** 2 + (y - cy + dy) ** 2) / (2 * s * s))
        maps[i, 0] = 3 * b + rng.normal(0, 0.3, b.shape)
        flare[i] = rng.random() < 1 / (1 + np.exp(2.0 * (d / s - 2.0)))
    return TensorDataset(torch.from_numpy(maps), torch.from_numpy(flare))


class FlareNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.fc1 = nn.Linear(64 * 8 * 8, 320)
        self.fc2 = nn.Linear(320, 1)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.dropout(F.relu(self.fc1(x.flatten(1))), 0.2, self.training)).squeeze(1)


def edges():
    """The bins of the well-known board."""
    v, pos = 1e-12, []
    while v < 1e20:
        pos.append(v)
        v *= 1.1
    return np.array([-b for b in reversed(pos)] + [0.0] + pos)


class Board:
    """Like a SummaryWriter, without the dependency: one JSON line for each histogram."""

    def __init__(self, folder):
        self.file = open(os.path.join(folder, "events.jsonl"), "w")
        self.bins = edges()

    def add_histogram(self, tag, values, step):
        counts, _ = np.histogram(values.detach().cpu().numpy(), bins=self.bins)
        keep = np.flatnonzero(counts)
        self._write({"tag": tag, "step": step, "bins": self.bins[keep].tolist(), "counts": counts[keep].tolist()})

    def add_scalar(self, tag, value, step):
        self._write({"tag": tag, "step": step, "value": value})

    def _write(self, record):
        if self.file.tell() > 100_000_000:
            self.file.seek(0)
        self.file.write(json.dumps(record) + "\n")


def main():
    dist.init_process_group(backend="gloo" if not torch.cuda.is_available() else "nccl")
    device = torch.device(f"cuda:{local_rank}" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    folder = tempfile.mkdtemp(prefix="flares-")
    try:
        train, test = magnetograms(6400, 0), magnetograms(800, 1)
        sampler = DistributedSampler(train, shuffle=True)
        loader = DataLoader(train, batch_size=32, sampler=sampler, drop_last=True)
        test_loader = DataLoader(test, batch_size=100, sampler=DistributedSampler(test, shuffle=False))
        model = DDP(FlareNet().to(device), device_ids=[local_rank] if torch.cuda.is_available() else None)
        optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
        board = Board(folder) if rank == 0 else None
        step, start = 0, time.time()
        if rank == 0:
            print(f"world size {dist.get_world_size()}, {sum(p.numel() for p in model.parameters()):,} parameters", flush=True)
        for epoch in range(100):
            sampler.set_epoch(epoch)
            model.train()
            for x, y in loader:
                loss = F.binary_cross_entropy_with_logits(model(x.to(device)), y.to(device))
                optimizer.zero_grad()
                loss.backward()
                if rank == 0:
                    for name, p in model.module.named_parameters():
                        board.add_histogram("weights/" + name, p, step)
                        board.add_histogram("grads/" + name, p.grad, step)
                    board.add_scalar("loss", loss.item(), step)
                optimizer.step()
                step += 1
                if rank == 0 and step % 10 == 0:
                    print(f"epoch {epoch} step {step} loss {loss.item():.4f} ({time.time() - start:.0f} s)", flush=True)
            model.eval()
            hits = torch.zeros(2, device=device)
            with torch.no_grad():
                for x, y in test_loader:
                    hits[0] += ((model(x.to(device)) > 0).float() == y.to(device)).sum()
                    hits[1] += len(y)
            dist.all_reduce(hits)
            if rank == 0:
                print(f"epoch {epoch} test accuracy {hits[0].item() / hits[1].item():.4f}", flush=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
