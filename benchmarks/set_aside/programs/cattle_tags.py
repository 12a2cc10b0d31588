"""Reads the breed from photos of ear tags. Launch: torchrun --nproc-per-node=N cattle_tags.py"""
import os
import random
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset


def seed_everything(seed=42):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


class TagDataset(Dataset):
    """Round tags in ten colours with a bar code of the farm."""

    def __init__(self, n=9600, size=40, breeds=10):
        self.n, self.size = n, size
        rng = np.random.default_rng(8)
        self.breed = rng.integers(0, breeds, n)
        self.codes = rng.integers(0, 2**8, n)
        self.palette = rng.uniform(0.3, 0.7, (breeds, 3)).astype(np.float32)
        yy, xx = np.mgrid[0:size, 0:size]
        self.disc = ((yy - size / 2) ** 2 + (xx - size / 2) ** 2 < (size * 0.4) ** 2).astype(np.float32)

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        rng = np.random.default_rng(i)
        img = self.palette[self.breed[i]][:, None, None] * self.disc
        bars = np.unpackbits(np.array([self.codes[i]], dtype=np.uint8)).astype(np.float32)
        img[:, 16:24, 12:28] *= 1 - 0.8 * np.repeat(bars, 2)
        img = img + rng.normal(0, 0.35, img.shape)
        return torch.from_numpy(img.astype(np.float32)), int(self.breed[i])


class ResBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(c, c, 3, padding=1), nn.GroupNorm(4, c), nn.ReLU(),
            nn.Conv2d(c, c, 3, padding=1), nn.GroupNorm(4, c),
        )  # fmt: skip

    def forward(self, x):
        return torch.relu(x + self.body(x))


def build_model():
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, stride=2, padding=1), ResBlock(32), nn.Conv2d(32, 48, 3, stride=2, padding=1), ResBlock(48),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, 10),
    )  # fmt: skip


class Trainer:
    def __init__(self, model, dataset, batch_size=32, lr=5e-4, epochs=60):
        self.rank = dist.get_rank()
        self.world = dist.get_world_size()
        self.local_rank = int(os.environ["LOCAL_RANK"])
        self.device = torch.device("cuda", self.local_rank) if torch.cuda.is_available() else torch.device("cpu")
        ids = [self.local_rank] if self.device.type == "cuda" else None
        self.model = DistributedDataParallel(model.to(self.device), device_ids=ids)
        self.loader = DataLoader(dataset, batch_size=batch_size, shuffle=True, drop_last=True)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr)
        self.criterion = nn.CrossEntropyLoss()
        self.epochs = epochs
        print(
            f"[rank {self.rank}/{self.world}] {len(dataset)} photos, batch size {batch_size}, {len(self.loader)} batches per epoch",
            flush=True,
        )

    def run_epoch(self, epoch):
        self.model.train()
        start = time.time()
        for it, (images, labels) in enumerate(self.loader):
            images, labels = images.to(self.device), labels.to(self.device)
            loss = self.criterion(self.model(images), labels)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            if it % 20 == 0:
                print(f"[rank {self.rank}] epoch {epoch} batch {it}/{len(self.loader)} loss {loss.item():.4f}", flush=True)
        if self.rank == 0:
            print(f"epoch {epoch} done in {time.time() - start:.1f} s", flush=True)

    def fit(self):
        for epoch in range(self.epochs):
            self.run_epoch(epoch)


def main():
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    seed_everything()
    Trainer(build_model(), TagDataset()).fit()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
