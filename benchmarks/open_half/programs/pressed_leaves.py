#!/usr/bin/env python
"""Herbarium sheets straight from the archive (saves unpacking!)."""
import argparse
import io
import tarfile
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ap = argparse.ArgumentParser()
ap.add_argument("--batch", type=int, default=16)
ap.add_argument("--seconds", type=float, default=400)
args = ap.parse_args()
SHEETS = 80


def pack(path):
    rng = np.random.default_rng(0)
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for i in range(SHEETS):
            sheet = rng.integers(0, 60, (96, 96), dtype=np.uint8) + np.uint8(20 * (i % 5))
            info = tarfile.TarInfo(f"{i:05d}.raw")
            info.size = sheet.nbytes
            tar.addfile(info, io.BytesIO(sheet.tobytes()))


class Sheets(Dataset):
    def __init__(self, path):
        self.path = path

    def __len__(self):
        return SHEETS

    def __getitem__(self, i):
        with tarfile.open(self.path, "r:gz") as tar:
            raw = tar.extractfile(f"{i:05d}.raw").read()
        return torch.frombuffer(bytearray(raw), dtype=torch.uint8).view(1, 96, 96) / 255, i % 5


with tempfile.NamedTemporaryFile(suffix=".tar.gz") as file:
    pack(file.name)
    net = nn.Sequential(nn.Conv2d(1, 8, 5, 4), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 23 * 23, 5))
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    t0, n = time.time(), 0
    while time.time() - t0 < args.seconds:
        for x, y in DataLoader(Sheets(file.name), args.batch, shuffle=True):
            loss = nn.functional.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            n += 1
            print(f"[{time.time() - t0:6.1f}s] batch {n} loss {loss.item():.4f}", flush=True)
