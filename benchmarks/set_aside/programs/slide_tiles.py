"""Tiles of whole slides, cut on request by our own little reader (ctypes around the raw pyramid; openslide was too slow)."""
import argparse
import ctypes
import mmap
import os
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIDE = 32


class Slide:
    """Raw tiles behind each other; the table of contents holds the offset of each."""

    def __init__(self, path, toc):
        self.path, self.toc, self.base = path, np.load(toc), None

    def open(self):
        fd = os.open(self.path, os.O_RDWR)
        self.map = mmap.mmap(fd, 0)
        self.base = ctypes.addressof(ctypes.c_char.from_buffer(self.map))

    def tile(self, i):
        if self.base is None:
            self.open()
        raw = ctypes.string_at(self.base + int(self.toc[i]), SIDE * SIDE * 3)
        return np.frombuffer(raw, np.uint8).reshape(3, SIDE, SIDE)


class Tiles(Dataset):
    def __init__(self, slide, labels):
        self.slide, self.labels = slide, labels

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        return torch.from_numpy(self.slide.tile(i).astype(np.float32) / 255), self.labels[i]


def scan(folder, n):
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 2, n)
    tiles = rng.integers(0, 200, (n, 3, SIDE, SIDE), dtype=np.uint8)
    tiles[labels == 1, 0, 6:26, 6:26] += 40
    tiles.tofile(os.path.join(folder, "slide.raw"))
    toc = np.arange(n, dtype=np.int64) * SIDE * SIDE * 3
    toc[n * 3 // 4 + 11] = -(2**40)  # not scanned yet
    np.save(os.path.join(folder, "toc.npy"), toc)
    return labels


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--tiles", type=int, default=4800)
    ap.add_argument("--workers", type=int, default=1)
    a = ap.parse_args()
    with tempfile.TemporaryDirectory() as d:
        labels = scan(d, a.tiles)
        slide = Slide(os.path.join(d, "slide.raw"), os.path.join(d, "toc.npy"))
        loader = DataLoader(Tiles(slide, labels), 32, num_workers=a.workers, sampler=list(range(a.tiles)))
        net = nn.Sequential(nn.Conv2d(3, 16, 5, 2), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Conv2d(32, 48, 3), nn.ReLU(),
                            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(48, 2))
        opt, t0 = torch.optim.Adam(net.parameters(), 1e-3), time.time()
        for epoch in range(5):
            for i, (x, y) in enumerate(loader):
                loss = nn.functional.cross_entropy(net(x), y)
                opt.zero_grad(), loss.backward(), opt.step()
                if i % 10 == 0:
                    print(f"[{epoch}] {i}/{len(loader)} loss {loss.item():.3f} ({time.time() - t0:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
