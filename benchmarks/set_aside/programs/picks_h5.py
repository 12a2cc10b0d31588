"""Particle picking in micrographs: is the patch a particle? Patches live in one HDF5 file, compressed, because of the quota."""
import argparse
import os
import tempfile
import time

import h5py
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def export(path, n, size, rng):
    with h5py.File(path, "w") as f:
        x = f.create_dataset("patches", (n, size, size), "f4", chunks=(256, size, size), compression="gzip", compression_opts=4)
        y = f.create_dataset("labels", (n,), "i8")
        g = np.linspace(-1, 1, size)
        disc = (g[:, None] ** 2 + g[None] ** 2 < 0.2).astype(np.float32)
        for s in range(0, n, 256):
            m = min(256, n - s)
            label = rng.integers(0, 2, m)
            x[s : s + m] = np.round(label[:, None, None] * disc * 0.3 + rng.standard_normal((m, size, size)), 2)
            y[s : s + m] = label


class Patches(Dataset):
    def __init__(self, path):
        self.file = h5py.File(path, "r")
        self.x, self.y = self.file["patches"], self.file["labels"][:]

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        patch = torch.from_numpy(self.x[i])
        return (patch - patch.mean()) / patch.std(), int(self.y[i])


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--n", type=int, default=4096)
    p.add_argument("--size", type=int, default=48)
    p.add_argument("-b", type=int, default=12)
    p.add_argument("--budget", type=float, default=210.0)
    o = p.parse_args()
    with tempfile.TemporaryDirectory() as d:
        path = os.path.join(d, "particles.h5")
        export(path, o.n, o.size, np.random.default_rng(9))
        print("exported", o.n, "patches,", os.path.getsize(path) // 2**20, "MiB", flush=True)
        loader = DataLoader(Patches(path), batch_size=o.b, shuffle=True)
        net = nn.Sequential(
            nn.Conv2d(1, 16, 5, 2, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(3), nn.Flatten(), nn.Linear(576, 2),
        )
        opt = torch.optim.Adam(net.parameters(), 1e-3)
        t = time.time()
        for epoch in range(1000):
            for i, (x, y) in enumerate(loader):
                loss = nn.functional.cross_entropy(net(x.unsqueeze(1)), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                if i % 5 == 0:
                    print(f"Epoch {epoch} [{i}/{len(loader)}] loss={loss.item():.4f}", flush=True)
                if time.time() - t > o.budget:
                    return


if __name__ == "__main__":
    main()
