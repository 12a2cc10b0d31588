"""Bat calls in short recordings. h5 files are not fork-safe, so the workers are spawned."""
import argparse
import os
import tempfile
import time

import h5py
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Calls(Dataset):
    def __init__(self, path):
        self.path, self.file = path, None
        with h5py.File(path) as f:
            self.n = len(f["species"])

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        if self.file is None:
            self.file = h5py.File(self.path)
        return torch.from_numpy(self.file["audio"][i]).unsqueeze(0), int(self.file["species"][i])


def record(path, n=384, species=9, length=2048):
    rng = np.random.default_rng(3)
    y = rng.integers(0, species, n)
    t = np.linspace(0, 1, length)
    sweep = np.sin(2 * np.pi * (40 + 30 * y[:, None]) * t * (1.4 - t)) * np.exp(-((t - rng.random((n, 1))) * 6) ** 2)
    with h5py.File(path, "w") as f:
        f["audio"], f["species"] = (sweep + 0.4 * rng.standard_normal((n, length))).astype("float32"), y


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--workers", type=int, default=2)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--seconds", type=float, default=210)
    args = ap.parse_args()
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv1d(1, 32, 31, 4), nn.BatchNorm1d(32), nn.ReLU(), nn.Conv1d(32, 64, 15, 4), nn.BatchNorm1d(64), nn.ReLU(), nn.Conv1d(64, 96, 7, 2), nn.ReLU(),
                        nn.AdaptiveMaxPool1d(4), nn.Flatten(), nn.Linear(384, 9))
    opt = torch.optim.AdamW(net.parameters(), 1e-3)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "calls.h5")
        record(path)
        loader = DataLoader(Calls(path), args.batch_size, shuffle=True, num_workers=args.workers, multiprocessing_context="spawn", drop_last=True)
        start, epoch = time.time(), 0
        while time.time() - start < args.seconds:
            losses = []
            for x, y in loader:
                loss = nn.functional.cross_entropy(net(x), y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                losses.append(loss.item())
            print(f"epoch {epoch:3d}  loss {np.mean(losses):.4f}  last {losses[-1]:.4f}  total {time.time() - start:.0f} s", flush=True)
            epoch += 1


if __name__ == "__main__":
    main()
