"""Keyword spotting baseline (12 commands, DS-CNN). Minimal version with synthetic clips."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SR = 16000
N_FFT = 480
HOP = 160
N_MELS = 40


def hz2mel(f):
    return 2595.0 * np.log10(1.0 + f / 700.0)


def mel2hz(m):
    return 700.0 * (10.0 ** (m / 2595.0) - 1.0)


def mel_filters(n_mels=N_MELS, n_fft=512, sr=SR):
    pts = mel2hz(np.linspace(hz2mel(20.0), hz2mel(sr / 2), n_mels + 2))
    freqs = np.linspace(0, sr / 2, n_fft // 2 + 1)
    fb = np.zeros((n_mels, len(freqs)))
    for m in range(n_mels):
        lo, mid, hi = pts[m], pts[m + 1], pts[m + 2]
        for k, f in enumerate(freqs):
            if lo <= f <= mid:
                fb[m, k] = (f - lo) / (mid - lo)
            elif mid < f <= hi:
                fb[m, k] = (hi - f) / (hi - mid)
    return fb


def log_mel(wav):
    frames = []
    window = np.hanning(N_FFT)
    for start in range(0, len(wav) - N_FFT + 1, HOP):
        spec = np.abs(np.fft.rfft(wav[start:start + N_FFT] * window, n=512)) ** 2
        frames.append(spec)
    spec = np.stack(frames, axis=1)
    return np.log(mel_filters() @ spec + 1e-6).astype(np.float32)


class SpeechCommands(Dataset):
    def __init__(self, n, n_classes, seed, train=True):
        rng = np.random.default_rng(seed)
        self.labels = rng.integers(0, n_classes, n)
        t = np.arange(SR) / SR
        base = np.random.default_rng(7).uniform(200, 3500, (n_classes, 3))
        self.clips = []
        for y in self.labels:
            s = np.zeros(SR)
            for j, f in enumerate(base[y]):
                on = int(rng.uniform(0.05, 0.25) * SR) + j * 4000
                seg = slice(on, min(SR, on + 4500))
                s[seg] += np.sin(2 * np.pi * f * rng.uniform(0.95, 1.05) * t[seg])
            s = s + 0.6 * rng.standard_normal(SR)
            self.clips.append((s / np.abs(s).max() * 20000).astype(np.int16))
        self.noise = rng.standard_normal(SR * 20)
        self.train = train

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        wav = self.clips[i].astype(np.float64) / 32768.0
        if self.train:
            shift = np.random.randint(-1600, 1600)
            wav = np.roll(wav, shift)
            rate = np.random.uniform(0.9, 1.1)
            wav = np.interp(np.arange(0, SR) * rate, np.arange(SR), wav)
            o = np.random.randint(0, len(self.noise) - SR)
            wav = wav + np.random.uniform(0, 0.1) * self.noise[o:o + SR]
        return torch.from_numpy(log_mel(wav))[None], int(self.labels[i])


class DSCNN(nn.Module):
    def __init__(self, n_classes, width=32, blocks=2):
        super().__init__()
        layers = [nn.Conv2d(1, width, (10, 4), stride=(2, 2), padding=(5, 1), bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        for _ in range(blocks):
            layers += [nn.Conv2d(width, width, 3, padding=1, groups=width, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                       nn.Conv2d(width, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        self.body = nn.Sequential(*layers)
        self.fc = nn.Linear(width, n_classes)

    def forward(self, x):
        return self.fc(self.body(x).mean(dim=(2, 3)))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=60)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--n-train", type=int, default=1500)
    p.add_argument("--log-interval", type=int, default=5)
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    device = "cuda" if torch.cuda.is_available() else "cpu"

    train_set = SpeechCommands(args.n_train, 12, seed=args.seed)
    val_set = SpeechCommands(96, 12, seed=args.seed + 1, train=False)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(val_set, batch_size=args.batch_size)

    model = DSCNN(12).to(device)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-2)
    print(f"{sum(p.numel() for p in model.parameters())} parameters, {len(train_set)} clips, device {device}", flush=True)
    for epoch in range(1, args.epochs + 1):
        model.train()
        t0 = time.time()
        for i, (x, y) in enumerate(train_loader):
            x, y = x.to(device), y.to(device)
            loss = F.cross_entropy(model(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if i % args.log_interval == 0:
                print(f"Train Epoch: {epoch} [{i * args.batch_size}/{len(train_set)}]\tLoss: {loss.item():.4f}", flush=True)
        model.eval()
        hits = 0
        with torch.no_grad():
            for x, y in val_loader:
                hits += (model(x.to(device)).argmax(1).cpu() == y).sum().item()
        print(f"epoch {epoch}: val acc {hits / len(val_set):.3f} ({time.time() - t0:.1f} s)", flush=True)


if __name__ == "__main__":
    main()
