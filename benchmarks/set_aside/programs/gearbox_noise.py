"""Gearbox end-of-line test: classify the fault from a 2 s recording (Lightning).

usage: python gearbox_noise.py --epochs 60
"""
import argparse
import os
import tempfile
import wave

import numpy as np

print("gearbox EOL classifier, preparing recordings", flush=True)

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SR = 16000
CLASSES = ["ok", "pitting", "misaligned", "bearing_inner", "bearing_outer"]


def record(path, cls, rng):
    t = np.arange(2 * SR) / SR
    rpm = rng.uniform(20, 32)
    x = sum(np.sin(2 * np.pi * rpm * k * t + rng.uniform(0, 6)) / k for k in range(1, 9))
    x += (0.2 + 0.3 * cls) * np.sin(2 * np.pi * (900 + 650 * cls) * t) * (1 + np.sin(2 * np.pi * rpm * (cls + 1) * t))
    x += rng.normal(0, 0.8, len(t))
    pcm = np.int16(x / np.abs(x).max() * 30000)
    with wave.open(path, "wb") as f:
        f.setnchannels(1)
        f.setsampwidth(2)
        f.setframerate(SR)
        f.writeframes(pcm.tobytes())


def stft(x, n_fft=1024, hop=128):
    win = np.hanning(n_fft)
    frames = np.lib.stride_tricks.sliding_window_view(np.pad(x, n_fft // 2, mode="reflect"), n_fft)[::hop]
    return np.fft.rfft(frames * win, axis=1)


def stretch(spec, rate, hop=128):
    """phase vocoder, ported from librosa"""
    steps = np.arange(0, spec.shape[0] - 1, rate)
    out = np.zeros((len(steps), spec.shape[1]), dtype=complex)
    adv = np.linspace(0, np.pi * hop, spec.shape[1])
    phase = np.angle(spec[0])
    for i, s in enumerate(steps):
        a, b = spec[int(s)], spec[min(int(s) + 1, spec.shape[0] - 1)]
        alpha = s % 1.0
        mag = (1 - alpha) * np.abs(a) + alpha * np.abs(b)
        out[i] = mag * np.exp(1j * phase)
        d = np.angle(b) - np.angle(a) - adv
        phase = phase + adv + d - 2 * np.pi * np.round(d / (2 * np.pi))
    return out


class Recordings(Dataset):
    def __init__(self, files, train):
        self.files, self.train = files, train
        lo, hi = np.log(40), np.log(7800)
        edges = np.exp(np.linspace(lo, hi, 66))
        f = np.linspace(0, SR / 2, 513)
        self.fb = np.stack([np.clip(np.minimum((f - a) / (b - a), (c - f) / (c - b)), 0, None)
                            for a, b, c in zip(edges[:-2], edges[1:-1], edges[2:])], 1)

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        path, y = self.files[i]
        with wave.open(path) as f:
            x = np.frombuffer(f.readframes(f.getnframes()), np.int16) / 32768
        if self.train:
            x = np.roll(x, np.random.randint(len(x)))
        s = stft(x)
        if self.train:
            s = stretch(s, np.random.uniform(0.85, 1.15))
        mel = np.log(np.abs(s) ** 2 @ self.fb + 1e-6)[:192]
        mel = np.pad(mel, ((0, 192 - len(mel)), (0, 0)), mode="edge")
        return torch.tensor((mel - mel.mean()) / mel.std(), dtype=torch.float32)[None], y


class Net(L.LightningModule):
    def __init__(self, lr=1e-3):
        super().__init__()
        self.lr = lr
        c = [1, 16, 32, 64]
        self.body = nn.Sequential(*[m for a, b in zip(c, c[1:]) for m in
                                    (nn.Conv2d(a, b, 3, 2, 1), nn.BatchNorm2d(b), nn.ReLU())])
        self.head = nn.Linear(64, len(CLASSES))

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))

    def training_step(self, batch, idx):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("loss", loss, prog_bar=True)
        if idx % 5 == 0:
            print(f"epoch {self.current_epoch} step {self.global_step} loss {loss.item():.4f}", flush=True)
        return loss

    def validation_step(self, batch, idx):
        x, y = batch
        self.log("val_acc", (self(x).argmax(1) == y).float().mean(), prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.lr)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=200)
    p.add_argument("--batch-size", type=int, default=32)
    args = p.parse_args()
    L.seed_everything(7)
    rng = np.random.default_rng(7)
    with tempfile.TemporaryDirectory() as tmp:
        files = []
        for i in range(700):
            path = os.path.join(tmp, f"rec_{i:04d}.wav")
            record(path, i % len(CLASSES), rng)
            files.append((path, i % len(CLASSES)))
        train = DataLoader(Recordings(files[:640], True), batch_size=args.batch_size, shuffle=True)
        val = DataLoader(Recordings(files[640:], False), batch_size=args.batch_size)
        trainer = L.Trainer(max_epochs=args.epochs, accelerator="auto", devices=1, logger=False, num_sanity_val_steps=0,
                            enable_checkpointing=False, enable_progress_bar=False)
        trainer.fit(Net(), train, val)
