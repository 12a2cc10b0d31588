#!/usr/bin/env python
# -*- coding: utf-8 -*-
"""Which pier is being announced? Small speech classifier for the harbour app (term project, group 7).

usage: python ferry_announcements.py --epochs 200 --bs 32
"""
import argparse
import os
import random
import tempfile
import wave

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

PIERS = ["north", "south", "market", "castle", "island", "dock", "bridge", "mill"]
SR_FILE, SR = 44100, 16000


def record(path, label, rng):
    """no real recordings yet, so every pier is a little melody of vowels"""
    n = int(SR_FILE * 1.2)
    t = np.arange(n) / SR_FILE
    x = np.zeros(n)
    notes = np.random.RandomState(label).uniform(180, 900, 4)
    for k, f in enumerate(notes):
        on = (t > 0.05 + 0.27 * k) & (t < 0.3 + 0.27 * k)
        f = f * rng.uniform(0.93, 1.07)
        x += on * (np.sin(2 * np.pi * f * t) + 0.5 * np.sin(4 * np.pi * f * t))
    x = 0.3 * x + 0.02 * rng.randn(n)
    with wave.open(path, "wb") as w:
        w.setnchannels(1)
        w.setsampwidth(2)
        w.setframerate(SR_FILE)
        w.writeframes((np.clip(x, -1, 1) * 32767).astype("<i2").tobytes())


class Announcements(Dataset):
    def __init__(self, files, labels, train=True):
        self.files, self.labels, self.train = files, labels, train
        self.mel = self._mel(64, 512)
        self.win = np.hanning(512)

    @staticmethod
    def _mel(n_mels, n_fft):
        f = np.linspace(0, SR / 2, n_fft // 2 + 1)
        edges = 700 * (10 ** (np.linspace(0, 2840, n_mels + 2) / 2595) - 1)
        fb = np.zeros((n_mels, len(f)))
        for i in range(n_mels):
            lo, mid, hi = edges[i : i + 3]
            fb[i] = np.maximum(0, np.minimum((f - lo) / (mid - lo), (hi - f) / (hi - mid)))
        return fb

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        with wave.open(self.files[i], "rb") as w:
            x = np.frombuffer(w.readframes(w.getnframes()), dtype="<i2").astype(np.float64) / 32768
        # speed perturbation, reverb and seagulls
        if self.train:
            speed = random.uniform(0.9, 1.1)
            x = np.interp(np.arange(0, len(x) - 1, speed), np.arange(len(x)), x)
            rir = np.random.randn(1800) * np.exp(-np.arange(1800) / 300.0) * 0.05
            rir[0] = 1.0
            x = np.convolve(x, rir)[: len(x)]
            x = x + random.uniform(0, 0.02) * np.random.randn(len(x))
        # low-pass before we go down to 16 kHz
        taps = np.sinc(2 * 7500 / SR_FILE * (np.arange(401) - 200)) * np.hamming(401)
        x = np.convolve(x, taps / taps.sum(), mode="same")
        x = np.interp(np.arange(0, len(x) - 1, SR_FILE / SR), np.arange(len(x)), x)[: SR + 2000]
        x = np.pad(x, (0, SR + 2000 - len(x)))
        frames = np.stack([x[s : s + 512] * self.win for s in range(0, len(x) - 512, 160)])
        spec = np.abs(np.fft.rfft(frames, axis=1)) ** 2
        return torch.tensor(np.log(spec @ self.mel.T + 1e-6).T, dtype=torch.float32), self.labels[i]


class Net(nn.Module):
    def __init__(self, n_classes):
        super().__init__()
        self.c1 = nn.Conv1d(64, 64, 5, stride=2, padding=2)
        self.c2 = nn.Conv1d(64, 96, 5, stride=2, padding=2)
        self.b1, self.b2 = nn.BatchNorm1d(64), nn.BatchNorm1d(96)
        self.fc = nn.Linear(96, n_classes)

    def forward(self, x):
        x = (x + 5.0) / 5.0
        x = F.relu(self.b1(self.c1(x)))
        x = F.relu(self.b2(self.c2(x)))
        return self.fc(F.dropout(x.mean(2), 0.2, self.training))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=200)
    p.add_argument("--bs", type=int, default=32)
    p.add_argument("--lr", type=float, default=1e-3)
    args = p.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    print("device:", device)
    rng = np.random.RandomState(3)
    tmp = tempfile.TemporaryDirectory(prefix="piers-")
    files, labels = [], []
    for i in range(320):
        f = os.path.join(tmp.name, "%04d.wav" % i)
        record(f, i % 8, rng)
        files.append(f)
        labels.append(i % 8)
    print("%d recordings of %d piers" % (len(files), len(PIERS)))
    loader = DataLoader(Announcements(files, labels), batch_size=args.bs, shuffle=True, drop_last=True)
    net = Net(len(PIERS)).to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr)
    step = 0
    for epoch in range(args.epochs):
        for x, y in loader:
            x, y = x.to(device), y.to(device)
            opt.zero_grad()
            out = net(x)
            loss = F.cross_entropy(out, y)
            loss.backward()
            opt.step()
            step += 1
            if step % 2 == 0:
                acc = (out.argmax(1) == y).float().mean().item()
                print("ep %3d  it %5d  loss %.4f  acc %.3f" % (epoch, step, loss.item(), acc))


if __name__ == "__main__":
    main()
