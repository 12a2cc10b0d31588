"""Denoising of seismic traces kept in one archive file. Workers must not read the archive at the same time (it corrupted
our index once), so every access takes an exclusive lock."""
import argparse
import fcntl
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

ap = argparse.ArgumentParser()
ap.add_argument("-b", "--batch", default=32, type=int)
ap.add_argument("-j", "--workers", default=2, type=int)
ap.add_argument("--seek-ms", default=12.0, type=float, help="the archive is on the NAS: one seek takes this long")
args = ap.parse_args()


class Archive(Dataset):
    def __init__(self, path, seek_s):
        self.path, self.lock, self.seek_s = path, path + ".lock", seek_s
        open(self.lock, "w").close()

    def __len__(self):
        return 20000

    def __getitem__(self, i):
        with open(self.lock) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            time.sleep(self.seek_s)
            rng = np.random.default_rng(i)
        t = np.linspace(0, 1, 256, dtype=np.float32)
        clean = np.sin(2 * np.pi * rng.uniform(2, 20) * t) * np.exp(-rng.uniform(1, 6) * t)
        return (clean + 0.4 * rng.standard_normal(256)).astype(np.float32), clean.astype(np.float32)


def main():
    with tempfile.TemporaryDirectory() as where:
        loader = DataLoader(Archive(os.path.join(where, "traces.sgy"), args.seek_ms / 1000), args.batch, shuffle=True, num_workers=args.workers)
        net = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 256))
        opt = torch.optim.Adam(net.parameters(), 1e-3)
        for epoch in range(100):
            for i, (x, y) in enumerate(loader):
                loss = nn.functional.mse_loss(net(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                if i % 5 == 0:
                    print(f"Epoch: [{epoch}][{i}/{len(loader)}]  Loss {loss.item():.4e}", flush=True)


if __name__ == "__main__":
    main()
