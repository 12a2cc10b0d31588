"""Gesture recognition from skeleton sequences stored in HDF5 (one subject per file in the real set)."""
import argparse
import os
import tempfile
import time

import h5py
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

H5 = os.path.join(tempfile.gettempdir(), f"gestures48_{os.getuid()}.h5")


def write_h5(path, n=800, T=48, J=25, classes=8):
    rng = np.random.default_rng(0)
    y = rng.integers(0, classes, n)
    base = rng.standard_normal((classes, T, J * 3)).cumsum(1) / 6
    x = base[y] + rng.standard_normal((n, T, J * 3)) * 1.5
    with h5py.File(path, "w") as f:
        f.create_dataset("x", data=x.astype(np.float32), chunks=(1, T, J * 3))
        f.create_dataset("y", data=y)


class Gestures(Dataset):
    def __init__(self, path, train):
        self.path, self.train = path, train
        with h5py.File(path, "r") as f:
            n = len(f["y"])
        cut = int(n * 0.8)
        self.ids = np.arange(cut) if train else np.arange(cut, n)
        self.f = None

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        if self.f is None:
            self.f = h5py.File(self.path, "r")
        x = self.f["x"][self.ids[i]]
        if self.train:
            x = x + np.random.standard_normal(x.shape).astype(np.float32) * 0.05
        return torch.from_numpy(x), int(self.f["y"][self.ids[i]])


class Net(nn.Module):
    def __init__(self, d=96, classes=8):
        super().__init__()
        self.inp = nn.Linear(75, d)
        layer = nn.TransformerEncoderLayer(d, 4, 2 * d, dropout=0.1, batch_first=True)
        self.enc = nn.TransformerEncoder(layer, 2)
        self.out = nn.Linear(d, classes)

    def forward(self, x):
        return self.out(self.enc(self.inp(x)).mean(1))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=100)
    ap.add_argument("--batch_size", type=int, default=32)
    ap.add_argument("--workers", type=int, default=2)
    ap.add_argument("--lr", type=float, default=3e-4)
    args = ap.parse_args()

    if not os.path.exists(H5):
        write_h5(H5)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    kw = dict(batch_size=args.batch_size, num_workers=args.workers,
              multiprocessing_context="spawn",  # h5py does not like fork
              pin_memory=device.type == "cuda")
    train_dl = DataLoader(Gestures(H5, True), shuffle=True, **kw)
    val_dl = DataLoader(Gestures(H5, False), **kw)
    torch.manual_seed(0)
    net = Net().to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr)
    lossf = nn.CrossEntropyLoss()
    print("batches per epoch:", len(train_dl), "+", len(val_dl), flush=True)
    for ep in range(args.epochs):
        t0 = time.time()
        net.train()
        tot = 0.0
        for x, y in train_dl:
            x, y = x.to(device), y.to(device)
            loss = lossf(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            tot += loss.item()
        t1 = time.time()
        net.eval()
        hit = 0
        with torch.no_grad():
            for x, y in val_dl:
                hit += (net(x.to(device)).argmax(1).cpu() == y).sum().item()
        print(f"epoch {ep:3d}  loss {tot / len(train_dl):.4f}  val acc {hit / len(val_dl.dataset):.3f}  "
              f"train {t1 - t0:.1f}s  val {time.time() - t1:.1f}s", flush=True)


if __name__ == "__main__":
    main()
