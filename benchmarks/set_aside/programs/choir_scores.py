"""Which voice sings? Frames of choir recordings, four voices, many at once.

First, both cores compute the constant-Q-like features of all pieces once; then a network trains on what lies in memory.
"""
import csv
import multiprocessing as mp
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

PIECES, SECONDS, RATE, BINS, HOP = 64, 12, 8000, 84, 160
CONTEXT = 15


def kernels():
    bank = []
    for b in range(BINS):
        f = 55 * 2 ** (b / 14)
        n = int(min(4096, 12 * RATE / f))
        t = np.arange(n) / RATE
        bank.append(np.hanning(n) * np.exp(2j * np.pi * f * t) / n)
    return bank


def analyse(seed):
    """Render a piece and return its features and who sings in which frame."""
    rng = np.random.default_rng(seed)
    t = np.arange(SECONDS * RATE) / RATE
    x = 0.02 * rng.standard_normal(len(t))
    voices = np.zeros((4, len(t)))
    for v, base in enumerate((110, 165, 247, 370)):
        at = 0
        while at < len(t):
            length = int(rng.uniform(0.4, 1.5) * RATE)
            if rng.random() < 0.6:
                f = base * 2 ** (rng.integers(-4, 8) / 12)
                s = slice(at, min(at + length, len(t)))
                vibrato = 0.3 * np.sin(2 * np.pi * 5.5 * t[s])
                x[s] += sum(np.sin(2 * np.pi * f * h * t[s] + vibrato) / h ** (1 + 0.2 * v) for h in range(1, 5)) / 8
                voices[v, s] = 1
            at += length
    frames = np.arange(2048, len(x) - 2048, HOP)
    features = np.empty((len(frames), BINS), np.float32)
    for b, kernel in enumerate(kernels()):
        features[:, b] = np.log(1e-4 + np.abs(np.convolve(x, kernel, mode="same"))[frames])
    return features, voices[:, frames].T.astype(np.float32)


class VoiceNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d((1, 2)),
                                  nn.Conv2d(24, 48, 3, padding=1), nn.ReLU(), nn.MaxPool2d((3, 2)))
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(0.3), nn.Linear(48 * 5 * 21, 128), nn.ReLU(), nn.Linear(128, 4))

    def forward(self, x):
        return self.head(self.conv(x))


def main():
    began = time.time()
    pieces = []
    with mp.get_context("spawn").Pool(2) as pool:
        for done, piece in enumerate(pool.imap(analyse, range(PIECES)), 1):
            pieces.append(piece)
            if done % 8 == 0:
                print(f"features: {done}/{PIECES} pieces", flush=True)
    x = torch.from_numpy(np.stack([p[0] for p in pieces]))
    y = torch.from_numpy(np.stack([p[1] for p in pieces]))
    x = (x - x.mean()) / x.std()
    print(f"features ready after {time.time() - began:.0f} s, {x.numel() * 4 / 1e6:.0f} MB", flush=True)

    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    net = VoiceNet().to(device)
    opt = torch.optim.Adam(net.parameters(), 5e-4)
    n_val = 8
    frames = x.shape[1]
    log_path = Path(tempfile.mkdtemp()) / "progress.csv"
    with log_path.open("w", newline="") as file:
        table = csv.writer(file)
        for step in range(1, 12001):
            p = torch.randint(n_val, PIECES, (64,))
            f = torch.randint(CONTEXT // 2, frames - CONTEXT // 2, (64,))
            window = f[:, None] + torch.arange(-(CONTEXT // 2), CONTEXT // 2 + 1)
            loss = nn.functional.binary_cross_entropy_with_logits(net(x[p[:, None], window][:, None].to(device)), y[p, f].to(device))
            opt.zero_grad()
            loss.backward()
            opt.step()
            table.writerow([step, round(loss.item(), 5)])
            if step % 200 == 0:
                file.flush()
                print(f"step {step}: bce {loss.item():.4f}", flush=True)


if __name__ == "__main__":
    print("choir: analysing", PIECES, "pieces", flush=True)
    main()
