"""Age of coral cores from X-ray density profiles.

Old surveys are stored as .json.xz, those since 2015 as .npy.
    torchrun --standalone --nproc-per-node=2 coral_cores.py
"""
import json
import lzma
import os
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn

PER_FILE, LENGTH = 96, 256


def profile(rng, n):
    age = rng.uniform(1, 30, n)
    t = np.arange(LENGTH)
    x = np.sin(2 * np.pi * t[None] / age[:, None] + rng.uniform(0, 6, n)[:, None]) + 0.4 * rng.standard_normal((n, LENGTH))
    return x.astype("float32"), (age / 30).astype("float32")


def prepare(folder):
    """A stand-in for the archive: 10 surveys, alternately of the two reef stations."""
    rng = np.random.default_rng(2)
    for k in range(10):
        x, y = profile(rng, PER_FILE)
        if k % 2:
            with lzma.open(folder / f"survey{k:02d}.json.xz", "wt", preset=1) as f:
                json.dump({"x": x.tolist(), "y": y.tolist()}, f)
        else:
            np.save(folder / f"survey{k:02d}.npy", np.concatenate([x, y[:, None]], 1))


def read(path):
    if path.suffix == ".xz":
        with lzma.open(path, "rt") as f:
            survey = json.load(f)
        return torch.tensor(survey["x"]), torch.tensor(survey["y"])
    a = torch.from_numpy(np.load(path))
    return a[:, :LENGTH], a[:, LENGTH]


def batches(files, size, gen):
    while True:
        for k in torch.randperm(len(files), generator=gen).tolist():
            x, y = read(files[k])
            pick = torch.randperm(len(y), generator=gen)[:size]
            yield x[pick], y[pick]


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    folder = Path(tempfile.gettempdir()) / f"cores-{os.environ['TORCHELASTIC_RUN_ID']}"
    if rank == 0:
        folder.mkdir(exist_ok=True)
        prepare(folder)
    dist.barrier()
    files = sorted(folder.iterdir())[rank::world]
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv1d(1, 32, 9, 2), nn.ReLU(), nn.Conv1d(32, 32, 9, 2), nn.ReLU(), nn.AdaptiveAvgPool1d(16), nn.Flatten(), nn.Linear(512, 1))
    net = nn.parallel.DistributedDataParallel(net)
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    start = time.time()
    for step, (x, y) in enumerate(batches(files, 64, torch.Generator().manual_seed(rank)), 1):
        loss = nn.functional.smooth_l1_loss(net(x[:, None])[:, 0], y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 20 == 0:
            print(f"step {step:5d} loss {loss.item():.5f} elapsed {time.time() - start:.1f}", flush=True)


if __name__ == "__main__":
    main()
