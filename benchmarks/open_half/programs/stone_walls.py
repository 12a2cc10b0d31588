"""Dry stone walls in height maps: which fields have one? Preprocessing is cached on the local disk by rank 0.

    torchrun --nproc-per-node=2 stone_walls.py
"""
import os
import tempfile
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

# local scratch, the network file system is too slow for this
CACHE = Path(os.environ.get("WALLS_CACHE") or tempfile.mkdtemp(prefix="walls-"))
N_FIELDS, SIZE = 4000, 48


def hillshade(height):
    gy, gx = torch.gradient(height)
    return 1.0 / torch.sqrt(1 + gx**2 + gy**2)


def build_cache():
    gen = torch.Generator().manual_seed(0)
    images, labels = [], []
    for i in range(N_FIELDS):
        coarse = torch.randn(1, 1, 6, 6, generator=gen)
        height = nn.functional.interpolate(coarse, size=(SIZE, SIZE), mode="bicubic")[0, 0] * 2
        label = int(torch.randint(0, 2, (1,), generator=gen))
        if label:
            row = int(torch.randint(8, SIZE - 8, (1,), generator=gen))
            height[row : row + 2] += 0.8
        height += 0.1 * torch.randn(SIZE, SIZE, generator=gen)
        images.append(hillshade(height))
        labels.append(label)
    torch.save((torch.stack(images).unsqueeze(1), torch.tensor(labels)), CACHE / "fields.pt")
    (CACHE / "DONE").touch()


def get_dataset(rank):
    if rank == 0:
        start = time.time()
        print("[rank 0] building cache", flush=True)
        build_cache()
        print(f"[rank 0] cache ready after {time.time() - start:.1f} s", flush=True)
    else:
        print(f"[rank {rank}] waiting for rank 0 to build the cache", flush=True)
        while not (CACHE / "DONE").exists():
            time.sleep(0.5)
    return TensorDataset(*torch.load(CACHE / "fields.pt"))


def make_model():
    return nn.Sequential(
        nn.Conv2d(1, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(24, 48, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(48, 64, 3, padding=1), nn.ReLU(), nn.AdaptiveMaxPool2d(1),
        nn.Flatten(), nn.Linear(64, 2),
    )  # fmt: skip


def main():
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    dataset = get_dataset(rank)
    sampler = DistributedSampler(dataset, shuffle=True)
    loader = DataLoader(dataset, batch_size=32, sampler=sampler, drop_last=True)
    torch.manual_seed(0)
    model = DDP(make_model())
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(200):
        sampler.set_epoch(epoch)
        for i, (x, y) in enumerate(loader):
            loss = nn.functional.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if rank == 0 and i % 10 == 0:
                print(f"epoch {epoch} {i}/{len(loader)} loss {loss.item():.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
