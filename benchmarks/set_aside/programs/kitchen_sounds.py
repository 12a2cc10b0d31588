"""Sound events of a kitchen: which of ten appliances is on. Small CNN on log-mel spectrograms.

    python kitchen_sounds.py --epochs 40 --batch-size 32
"""

import argparse
import logging
import tempfile
import wave
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("kitchen")
CLASSES = ["kettle", "mixer", "fridge", "hood", "oven", "toaster", "dishwasher", "grinder", "tap", "microwave"]
IN_RATE, RATE, N_FFT, HOP, MELS = 44100, 16000, 512, 160, 64


def record(folder, per_class, rng):
    """Stand-in for the recordings of the hall: one second each, 44.1 kHz, 16 bit."""
    files = []
    t = np.arange(IN_RATE) / IN_RATE
    for label in range(len(CLASSES)):
        for k in range(per_class):
            base = 90 * 1.32**label * rng.uniform(0.93, 1.07)
            x = sum(np.sin(2 * np.pi * base * h * t + rng.uniform(0, 6)) / h for h in range(1, 5))
            x = 0.25 * x * (1 + 0.4 * np.sin(2 * np.pi * (2 + label) * t)) + 0.5 * rng.standard_normal(IN_RATE)
            path = folder / f"{CLASSES[label]}_{k:03d}.wav"
            with wave.open(str(path), "wb") as f:
                f.setnchannels(1)
                f.setsampwidth(2)
                f.setframerate(IN_RATE)
                f.writeframes((np.clip(x / 2, -1, 1) * 32767).astype("<i2").tobytes())
            files.append((path, label))
    return files


def mel_matrix():
    mel = lambda f: 2595 * np.log10(1 + f / 700)
    edges = 700 * (10 ** (np.linspace(mel(40), mel(RATE / 2), MELS + 2) / 2595) - 1)
    bins = np.linspace(0, RATE / 2, N_FFT // 2 + 1)
    out = np.zeros((MELS, len(bins)), dtype=np.float32)
    for i in range(MELS):
        lo, mid, hi = edges[i : i + 3]
        out[i] = np.maximum(0, np.minimum((bins - lo) / (mid - lo), (hi - bins) / (hi - mid)))
    return out


class Sounds(Dataset):
    def __init__(self, files, train):
        self.files, self.train = files, train
        self.mel = mel_matrix()
        n = np.arange(-128, 129)
        cut = 7600 / IN_RATE
        self.lowpass = 2 * cut * np.sinc(2 * cut * n) * np.hamming(len(n))

    def __len__(self):
        return len(self.files)

    def resample(self, x):
        x = np.convolve(x, self.lowpass, mode="same")
        speed = np.random.uniform(0.95, 1.05) if self.train else 1.0
        where = np.arange(0, len(x) - 1, IN_RATE / RATE * speed)
        return np.interp(where, np.arange(len(x)), x)

    def reverb(self, x):
        room = np.random.standard_normal(1600) * np.exp(-np.arange(1600) / 250.0)
        room[0] = 12.0
        return np.convolve(x, room / 12.0, mode="same")

    def __getitem__(self, i):
        path, label = self.files[i]
        with wave.open(str(path), "rb") as f:
            x = np.frombuffer(f.readframes(f.getnframes()), dtype="<i2").astype(np.float64) / 32768
        x = self.resample(x)
        if self.train:
            x = self.reverb(x) + np.random.uniform(0, 0.05) * np.random.standard_normal(len(x))
        x = np.pad(x[:RATE], (0, max(0, RATE - len(x))))
        window = np.hanning(N_FFT)
        frames = []
        for start in range(0, RATE - N_FFT, HOP):
            spectrum = np.abs(np.fft.rfft(x[start : start + N_FFT] * window)) ** 2
            frames.append(np.log(self.mel @ spectrum + 1e-6))
        return torch.tensor(np.stack(frames, 1), dtype=torch.float32)[None] / 5, label


def build():
    layers, channels = [], 1
    for out in (12, 24, 48, 96):
        layers += [nn.Conv2d(channels, out, 3, stride=2 if channels == 1 else 1, padding=1), nn.BatchNorm2d(out), nn.ReLU(), nn.MaxPool2d(2)]
        channels = out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(96, len(CLASSES)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=60)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--log-every", type=int, default=5)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    torch.manual_seed(1)
    rng = np.random.default_rng(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with tempfile.TemporaryDirectory() as folder:
        log.info("copying recordings")
        files = record(Path(folder), 50, rng)
        rng.shuffle(files)
        files = [(path, int(label)) for path, label in files]
        train = DataLoader(Sounds(files[80:], True), args.batch_size, shuffle=True, drop_last=True)
        val = DataLoader(Sounds(files[:80], False), args.batch_size)
        model = build().to(device)
        optimizer = torch.optim.AdamW(model.parameters(), args.lr)
        log.info("%d recordings, %s", len(files), device)
        step = 0
        for epoch in range(args.epochs):
            model.train()
            for x, y in train:
                x, y = x.to(device), y.to(device)
                loss = nn.functional.cross_entropy(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                step += 1
                if step % args.log_every == 0:
                    log.info("epoch %d step %d loss %.4f", epoch, step, loss.item())
            if epoch % 5 == 4:
                model.eval()
                with torch.no_grad():
                    hits = sum((model(x.to(device)).argmax(1).cpu() == y).sum().item() for x, y in val)
                log.info("epoch %d val_acc %.3f", epoch, hits / 80)


if __name__ == "__main__":
    main()
