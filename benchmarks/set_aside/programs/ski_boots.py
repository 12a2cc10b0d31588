"""Turn detection from boot sensors.

Every recording is a csv (t, ax, ay, az, gx, gy, gz, pressure_l, pressure_r), one per turn.
usage: ski_boots.py [--data DIR] [--epochs N]
"""
import argparse
import os
import tempfile

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset
from tqdm import tqdm

HEADER = "t,ax,ay,az,gx,gy,gz,pl,pr"
TURNS = ("carved", "skidded", "plow", "short", "jump")


def simulate(folder, n):
    """Writes recordings until the club's real ones are cleared."""
    rng = np.random.default_rng(5)
    t = np.arange(2400) / 600
    for i in range(n):
        k = i % len(TURNS)
        base = np.sin(2 * np.pi * (0.5 + 0.4 * k) * t + rng.uniform(0, 6))
        cols = [t] + [base * rng.uniform(0.7, 1.3) * (1 if c % 2 else -1) + rng.normal(0, 0.8, t.size) for c in range(8)]
        np.savetxt(os.path.join(folder, f"turn_{i:04d}_{TURNS[k]}.csv"), np.stack(cols, 1), fmt="%.5f", delimiter=",", header=HEADER, comments="")


class TurnDataset(Dataset):
    def __init__(self, folder, files):
        self.folder, self.files = folder, files

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        name = self.files[index]
        table = np.genfromtxt(os.path.join(self.folder, name), delimiter=",", names=True)
        signal = np.stack([table[c] for c in HEADER.split(",")[1:]])
        signal = signal[:, ::6]  # 100 Hz is enough
        signal = (signal - signal.mean(1, keepdims=True)) / (signal.std(1, keepdims=True) + 1e-6)
        label = TURNS.index(name[:-4].split("_")[2])
        return torch.tensor(signal, dtype=torch.float32), label


class TurnNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(8, 32, 9, stride=2, padding=4), nn.ReLU(), nn.Conv1d(32, 64, 9, stride=2, padding=4), nn.ReLU(), nn.MaxPool1d(2)
        )
        self.gru = nn.GRU(64, 64, batch_first=True)
        self.head = nn.Linear(64, len(TURNS))

    def forward(self, x):
        h, _ = self.gru(self.conv(x).transpose(1, 2))
        return self.head(h.mean(1))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--data")
    ap.add_argument("--epochs", type=int, default=250)
    ap.add_argument("--batch-size", type=int, default=32)
    args = ap.parse_args()
    tmp = None
    if args.data is None:
        tmp = tempfile.TemporaryDirectory(prefix="turns-")
        args.data = tmp.name
        print("simulating recordings", flush=True)
        simulate(args.data, 384)
    files = sorted(f for f in os.listdir(args.data) if f.endswith(".csv"))
    print(f"{len(files)} recordings in {args.data}")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    loader = DataLoader(TurnDataset(args.data, files), batch_size=args.batch_size, shuffle=True, drop_last=True)
    model = TurnNet().to(device)
    optim = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(args.epochs):
        bar = tqdm(loader, desc=f"epoch {epoch}")
        total = hits = seen = 0
        for x, y in bar:
            x, y = x.to(device), y.to(device)
            logits = model(x)
            loss = nn.functional.cross_entropy(logits, y)
            optim.zero_grad(set_to_none=True)
            loss.backward()
            optim.step()
            seen += len(y)
            total += loss.item() * len(y)
            hits += (logits.argmax(1) == y).sum().item()
            bar.set_postfix(loss=f"{total / seen:.3f}", acc=f"{hits / seen:.3f}")


if __name__ == "__main__":
    main()
