#!/usr/bin/env python3
"""Keyword spotting on raw audio, small conv-GRU. Minimal version with synthetic speech commands."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import Dataset, DataLoader

p = argparse.ArgumentParser()
p.add_argument("--epochs", type=int, default=40)
p.add_argument("--batch-size", type=int, default=32)
p.add_argument("--lr", type=float, default=1e-3)
p.add_argument("--num-utts", type=int, default=2400)
p.add_argument("--log-interval", type=int, default=5)
p.add_argument("--seed", type=int, default=0)
args = p.parse_args()

SR = 16000
N_FFT = 400
HOP = 160
N_MELS = 40
N_CLASSES = 12

device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(args.seed)
rng = np.random.default_rng(args.seed)


def mel_filterbank(n_mels=N_MELS, n_fft=N_FFT, sr=SR):
    def hz2mel(f):
        return 2595 * np.log10(1 + f / 700)

    def mel2hz(m):
        return 700 * (10 ** (m / 2595) - 1)

    pts = mel2hz(np.linspace(hz2mel(20), hz2mel(sr / 2), n_mels + 2))
    bins = np.floor((n_fft + 1) * pts / sr).astype(int)
    fb = np.zeros((n_mels, n_fft // 2 + 1), dtype=np.float32)
    for i in range(n_mels):
        l, c, r = bins[i], bins[i + 1], bins[i + 2]
        c = max(c, l + 1)
        r = max(r, c + 1)
        for k in range(l, min(c, fb.shape[1])):
            fb[i, k] = (k - l) / (c - l)
        for k in range(c, min(r, fb.shape[1])):
            fb[i, k] = (r - k) / (r - c)
    return fb


class SpeechCommands(Dataset):
    def __init__(self, n, train=True):
        self.labels = rng.integers(0, N_CLASSES, n)
        self.seeds = rng.integers(0, 2 ** 31, n)
        self.train = train
        self.fb = mel_filterbank()
        self.window = np.hanning(N_FFT)
        self.rirs = [rng.standard_normal(4000) * np.exp(-np.arange(4000) / 600) for _ in range(20)]

    def __len__(self):
        return len(self.labels)

    def load_wav(self, i):
        r = np.random.default_rng(self.seeds[i])
        t = np.arange(SR) / SR
        y = int(self.labels[i])
        f0 = 110 + 25 * y + r.normal() * 6
        wav = sum(np.sin(2 * np.pi * f0 * (k + 1) * t + r.uniform(0, 6)) / (k + 1) for k in range(8))
        env = np.exp(-((t - r.uniform(0.3, 0.7)) ** 2) / 0.03)
        return wav * env

    def augment(self, wav):
        # speed perturbation
        rate = np.random.uniform(0.9, 1.1)
        idx = np.arange(0, len(wav) - 1, rate)
        wav = np.interp(idx, np.arange(len(wav)), wav)
        wav = np.pad(wav, (0, max(0, SR - len(wav))))[:SR]
        # reverb
        rir = self.rirs[np.random.randint(len(self.rirs))]
        wav = np.convolve(wav, rir)[:SR]
        # noise
        snr = np.random.uniform(5, 25)
        noise = np.random.standard_normal(len(wav))
        scale = np.sqrt((wav ** 2).mean() / 10 ** (snr / 10))
        return wav + noise * scale

    def logmel(self, wav):
        frames = []
        for s in range(0, len(wav) - N_FFT + 1, HOP):
            spec = np.abs(np.fft.rfft(wav[s:s + N_FFT] * self.window)) ** 2
            frames.append(np.log(self.fb @ spec + 1e-6))
        feat = np.stack(frames)
        return (feat - feat.mean()) / (feat.std() + 1e-5)

    def __getitem__(self, i):
        wav = self.load_wav(i)
        if self.train:
            wav = self.augment(wav)
        return torch.from_numpy(self.logmel(wav)).float(), int(self.labels[i])


class KWSNet(nn.Module):
    def __init__(self, dim=96):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv1d(N_MELS, dim, 5, stride=2, padding=2), nn.BatchNorm1d(dim), nn.ReLU(),
            nn.Conv1d(dim, dim, 5, padding=2), nn.BatchNorm1d(dim), nn.ReLU(),
        )
        self.gru = nn.GRU(dim, dim, batch_first=True)
        self.out = nn.Linear(dim, N_CLASSES)

    def forward(self, x):
        h = self.conv(x.transpose(1, 2)).transpose(1, 2)
        h, _ = self.gru(h)
        return self.out(h.mean(1))


train_set = SpeechCommands(args.num_utts)
train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True)

model = KWSNet().to(device)
opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-2)
print(f"{sum(p.numel() for p in model.parameters()) / 1e3:.0f}k params, {len(train_set)} utterances, device {device}", flush=True)

for epoch in range(args.epochs):
    model.train()
    t0 = time.time()
    run_loss = run_acc = 0.0
    for it, (feat, y) in enumerate(train_loader):
        feat, y = feat.to(device, non_blocking=True), y.to(device, non_blocking=True)
        logits = model(feat)
        loss = F.cross_entropy(logits, y, label_smoothing=0.05)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        opt.step()
        run_loss += loss.item()
        run_acc += (logits.argmax(-1) == y).float().mean().item()
        if (it + 1) % args.log_interval == 0:
            n = args.log_interval
            print(f"epoch {epoch} [{it + 1}/{len(train_loader)}] loss {run_loss / n:.3f} acc {100 * run_acc / n:.1f} "
                  f"{n * args.batch_size / (time.time() - t0):.0f} utt/s", flush=True)
            run_loss = run_acc = 0.0
            t0 = time.time()
