"""Keyword spotting, Lightning. Spectrograms are computed from the wav files when they are needed."""
import math
import shutil
import tempfile
import wave
from pathlib import Path

import lightning as L
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ROOT = Path(tempfile.gettempdir()) / "keywords-wav"
RATE, WORDS = 44100, 12


def write_corpus(root, n=480):
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    rng = np.random.default_rng(0)
    t = np.arange(RATE) / RATE
    for i in range(n):
        word = i % WORDS
        tone = np.sin(2 * math.pi * (220 + 90 * word) * t) + rng.normal(0, 0.6, RATE)
        with wave.open(str(root / f"{i:05d}_{word}.wav"), "wb") as f:
            f.setnchannels(1)
            f.setsampwidth(2)
            f.setframerate(RATE)
            f.writeframes((tone * 6000).astype("<i2").tobytes())


class Keywords(Dataset):
    def __init__(self, root):
        self.files = sorted(root.glob("*.wav"))
        freqs = np.linspace(0, 8000, 1025)
        centers = np.linspace(0, 8000, 66)
        self.mel = np.stack([np.interp(freqs, centers[k : k + 3], [0, 1, 0], left=0, right=0) for k in range(64)])

    def __len__(self):
        return len(self.files)

    def __getitem__(self, i):
        with wave.open(str(self.files[i])) as f:
            x = np.frombuffer(f.readframes(f.getnframes()), dtype="<i2") / 32768
        x = np.interp(np.arange(0, 1, 1 / 16000), np.arange(len(x)) / RATE, x)  # 44.1 -> 16 kHz
        shift = np.random.randint(-800, 800)
        x = np.roll(x, shift) + 0.01 * np.random.randn(len(x))
        frames = np.lib.stride_tricks.sliding_window_view(np.pad(x, 1024), 2048)[::80]
        spec = np.abs(np.fft.rfft(frames * np.hanning(2048), axis=1)) ** 2
        mel = np.log(spec @ self.mel.T + 1e-6)
        return torch.tensor(mel.T, dtype=torch.float32).unsqueeze(0), int(self.files[i].stem.split("_")[1])


class Spotter(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, 16, 5, 4, 2), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d((8, 4)), nn.Flatten(), nn.Linear(1024, WORDS)
        )

    def training_step(self, batch, _):
        x, y = batch
        loss = nn.functional.cross_entropy(self.net(x), y)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3)


if __name__ == "__main__":
    L.seed_everything(0)
    write_corpus(ROOT)
    loader = DataLoader(Keywords(ROOT), batch_size=32, shuffle=True)
    L.Trainer(max_epochs=200, accelerator="auto", devices=1, logger=False, enable_checkpointing=False, log_every_n_steps=1).fit(Spotter(), loader)
