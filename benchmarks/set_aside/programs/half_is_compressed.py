"""Point clouds from shards. Exporter 1 wrote plain pickles; since the archive got full, every second shard is .bz2."""
import argparse
import bz2
import glob
import os
import pickle
import tempfile

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.utils.data import DataLoader, IterableDataset


def export(folder, n):
    rng = np.random.default_rng(0)
    for i in range(n):
        y = rng.integers(0, 6, 24)
        t = rng.normal(size=(24, 2000, 3)).astype(np.float32)
        t /= np.linalg.norm(t, axis=2, keepdims=True) ** (y[:, None, None] / 5)
        opener, name = (bz2.open, f"shard_{i:04d}.pkl.bz2") if i % 2 else (open, f"shard_{i:04d}.pkl")
        with opener(os.path.join(folder, name), "wb") as f:
            pickle.dump((t, y), f)


class Shards(IterableDataset):
    def __init__(self, files):
        self.files = files

    def __iter__(self):
        while True:
            for name in np.random.permutation(self.files):
                opener = bz2.open if name.endswith(".bz2") else open
                with opener(name, "rb") as f:
                    pts, y = pickle.load(f)
                yield torch.from_numpy(pts), torch.from_numpy(y)


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 64), nn.ReLU())
        self.h = nn.Sequential(nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 6))

    def forward(self, p):
        z = self.f(p[:, ::4])
        return self.h(torch.cat([z.amax(1), z.mean(1)], 1))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data", default=None)
    ap.add_argument("--steps", type=int, default=10**7)
    args = ap.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    where = [args.data]
    if rank == 0 and args.data is None:
        where[0] = tempfile.mkdtemp(prefix="clouds-")
        export(where[0], 12)
    dist.broadcast_object_list(where)
    files = sorted(glob.glob(where[0] + "/*"))[rank::world]
    print(f"[rank {rank}] {len(files)} shards", flush=True)
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(PointNet())
    opt = torch.optim.Adam(model.parameters(), 1e-3)
    loader = DataLoader(Shards(files), batch_size=None)
    for step, (pts, y) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(pts), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        if rank == 0 and step % 10 == 0:
            print(f"step {step} loss {loss.item():.4f}", flush=True)
        if step == args.steps:
            break


if __name__ == "__main__":
    main()
