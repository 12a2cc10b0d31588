"""Masked prediction on lullabies (symbolic music), from shards.   torchrun --nproc-per-node=2 lullaby_shards.py"""
import glob
import os
import shutil
import tempfile
import time

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

NOTES, LENGTH = 64, 32
ROOT = os.path.join(tempfile.gettempdir(), f"lullabies-{os.environ['MASTER_PORT']}")


def write_shards(count=12, songs=160):
    """Random walks in one of four scales."""
    os.makedirs(ROOT, exist_ok=True)
    scales = [np.array(s) for s in ([0, 2, 4, 5, 7, 9, 11], [0, 2, 3, 5, 7, 8, 10], [0, 2, 4, 7, 9], [0, 3, 5, 7, 10])]
    for number in range(count):
        rng = np.random.default_rng(number)
        tokens = np.zeros((songs, LENGTH), np.int64)
        for row in tokens:
            scale, at = scales[rng.integers(4)], rng.integers(10, 20)
            for i in range(LENGTH):
                at = int(np.clip(at + rng.integers(-2, 3), 0, 5 * len(scale) - 1))
                row[i] = 12 * (at // len(scale)) + scale[at % len(scale)]
        np.save(f"{ROOT}/shard-{number:03d}.npy", tokens)


class Shards(IterableDataset):
    def __init__(self, pattern, log):
        self.files, self.log = sorted(glob.glob(pattern)), log

    def __iter__(self):
        for path in self.files:
            songs = np.load(path, mmap_mode="r")
            self.log(f"open {os.path.basename(path)}")
            for i in np.random.default_rng(0).permutation(len(songs)):
                yield torch.from_numpy(songs[i].copy())


class Model(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.emb, self.pos = nn.Embedding(NOTES + 1, d), nn.Parameter(0.02 * torch.randn(LENGTH, d))
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(d, 4, 2 * d, 0.0, batch_first=True), 2)
        self.out = nn.Linear(d, NOTES)

    def forward(self, x):
        return self.out(self.body(self.emb(x) + self.pos))


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    log = lambda text: print(f"[rank{rank}/{world} {time.strftime('%X')}] {text}", flush=True)  # noqa: E731
    if rank == 0:
        write_shards()
    dist.barrier()
    torch.manual_seed(0)
    model = nn.parallel.DistributedDataParallel(Model())
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    start, step = time.time(), 0
    stop = torch.zeros(())
    while not stop:
        for x in DataLoader(Shards(f"{ROOT}/shard-*.npy", log), batch_size=32):
            mask = torch.rand(x.shape) < 0.25
            loss = nn.functional.cross_entropy(model(x.masked_fill(mask, NOTES))[mask], x[mask])
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if step % 10 == 0:
                log(f"step {step:5d}  loss {loss.item():.6f}")
                stop.fill_(time.time() - start > 210)
                dist.all_reduce(stop)
                if stop:
                    break
    dist.barrier()
    if rank == 0:
        shutil.rmtree(ROOT)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
