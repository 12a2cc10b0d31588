"""Autoencoder on the sounds of a machine shop; the reconstruction error is to flag worn tools.

    python machine_shop_sounds.py --steps 620
"""
import argparse
import csv
import functools
import logging
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("machine_shop")
RATE, N_FFT, HOP, FRAMES = 8000, 256, 100, 128


def make_recordings(count, seconds, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(int(seconds * RATE)) / RATE
    recordings = []
    for _ in range(count):
        spindle = rng.uniform(40, 90)
        teeth = rng.integers(2, 9)
        wave = 0.4 * np.sin(2 * np.pi * spindle * t) + 0.3 * np.sin(2 * np.pi * spindle * teeth * t + rng.uniform(0, 6))
        wave += 0.1 * np.sin(2 * np.pi * spindle * teeth * 3 * t) * (1 + np.sin(2 * np.pi * rng.uniform(0.2, 1) * t))
        wave += rng.normal(0, 0.08, len(t))
        recordings.append(wave.astype(np.float32))
    return recordings


RECORDINGS = []
WINDOW = np.hanning(N_FFT).astype(np.float32)


@functools.lru_cache(maxsize=None)
def spectrogram(recording, start):
    """Log-spectrogram of one piece. The transform is slow, so it is kept."""
    piece = RECORDINGS[recording][start:start + N_FFT + HOP * (FRAMES - 1)]
    frames = np.lib.stride_tricks.sliding_window_view(piece, N_FFT)[::HOP] * WINDOW
    power = np.abs(np.fft.rfft(frames, axis=1)[:, :128]) ** 2
    return np.log(power + 1e-3).astype(np.float32).T.copy() / 4


class Pieces(Dataset):
    """Pieces that begin anywhere in a recording."""

    def __init__(self, length, seed):
        self.length = length
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        recording = index % len(RECORDINGS)
        last = len(RECORDINGS[recording]) - N_FFT - HOP * FRAMES
        start = int(self.rng.integers(0, last))
        return torch.from_numpy(spectrogram(recording, start))[None]


class AutoEncoder(nn.Module):
    def __init__(self, width=16, code=32):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(1, width, 5, 2, 2), nn.GELU(),
            nn.Conv2d(width, 2 * width, 5, 2, 2), nn.GELU(),
            nn.Conv2d(2 * width, 4 * width, 5, 2, 2), nn.GELU(),
            nn.Conv2d(4 * width, code, 1))
        self.decoder = nn.Sequential(
            nn.ConvTranspose2d(code, 4 * width, 4, 2, 1), nn.GELU(),
            nn.ConvTranspose2d(4 * width, 2 * width, 4, 2, 1), nn.GELU(),
            nn.ConvTranspose2d(2 * width, 1, 4, 2, 1))

    def forward(self, x):
        return self.decoder(self.encoder(x))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--recordings", type=int, default=60)
    p.add_argument("--batch-size", type=int, default=24)
    p.add_argument("--steps", type=int, default=620)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--csv", default="machine_shop_sounds.csv")
    args = p.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    torch.manual_seed(4)
    torch.set_num_threads(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    RECORDINGS.extend(make_recordings(args.recordings, 20, seed=8))
    loader = DataLoader(Pieces(args.batch_size * 50, seed=2), batch_size=args.batch_size, shuffle=True)
    model = AutoEncoder().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    log.info("%d recordings, device %s, %d parameters", len(RECORDINGS), device, sum(q.numel() for q in model.parameters()))

    step, epoch, begin = 0, 0, time.time()
    with open(args.csv, "w", newline="") as f:
        table = csv.writer(f)
        table.writerow(["step", "epoch", "loss", "seconds"])
        while step < args.steps:
            epoch += 1
            mean = 0.0
            for i, x in enumerate(loader, 1):
                x = x.to(device)
                loss = nn.functional.mse_loss(model(x), x)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
                step += 1
                mean += loss.item()
                if step % 10 == 0:
                    table.writerow([step, epoch, loss.item(), time.time() - begin])
                    f.flush()
                    log.info("step %d loss %.4f (%.2f steps/s)", step, loss.item(), step / (time.time() - begin))
                if step >= args.steps:
                    break
            log.info("epoch %d mean loss %.4f", epoch, mean / i)
            torch.save(model.state_dict(), "machine_shop_sounds.pt")


if __name__ == "__main__":
    main()
