"""Which voice sings? Soprano / alto / tenor / bass from 1 s excerpts of choir practice recordings.

    python choir_practice.py --batch-size 16 --epochs 20
"""
import argparse
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

VOICES = ["soprano", "alto", "tenor", "bass"]
PITCH = {"soprano": 520.0, "alto": 350.0, "tenor": 220.0, "bass": 120.0}
SR = 16000
MINUTES = 3


def make_recording(path, rng):
    """One evening of practice: the singers take turns, one second each."""
    n = MINUTES * 60
    voice = rng.integers(0, len(VOICES), n)
    t = np.arange(SR) / SR
    audio = np.empty((n, SR), dtype=np.float32)
    for i, v in enumerate(voice):
        f0 = PITCH[VOICES[v]] * 2 ** rng.normal(0, 0.25)
        wave = sum(np.sin(2 * np.pi * f0 * k * t + rng.uniform(0, 6.3)) / k for k in (1, 2, 3))
        audio[i] = 0.2 * wave
    audio += 0.05 * rng.standard_normal(audio.shape, dtype=np.float32)
    pcm = np.clip(audio * 32767 * 0.8, -32768, 32767).astype(np.int16)
    np.savez_compressed(path, audio=pcm.reshape(-1), voice=voice)


class ChoirDataset(Dataset):
    def __init__(self, root):
        self.files = sorted(os.path.join(root, f) for f in os.listdir(root))
        self.index = [(f, s) for f in self.files for s in range(MINUTES * 60)]

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        path, second = self.index[i]
        recording = np.load(path)
        audio = recording["audio"][second * SR : (second + 1) * SR]
        label = int(recording["voice"][second])
        x = torch.from_numpy(audio.astype(np.float32) / 32768.0)
        return x, label


class VoiceNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.register_buffer("window", torch.hann_window(512))
        self.conv1 = nn.Conv1d(257, width * 2, 5, padding=2)
        self.bn1 = nn.BatchNorm1d(width * 2)
        self.conv2 = nn.Conv1d(width * 2, width * 2, 5, padding=2)
        self.bn2 = nn.BatchNorm1d(width * 2)
        self.fc = nn.Linear(width * 2, len(VOICES))

    def forward(self, x):
        spec = torch.stft(x, 512, 256, window=self.window, return_complex=True).abs()
        h = torch.log1p(spec * 10)
        h = F.max_pool1d(F.relu(self.bn1(self.conv1(h))), 2)
        h = F.relu(self.bn2(self.conv2(h)))
        return self.fc(h.mean(-1))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--epochs", type=int, default=40)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--evenings", type=int, default=8)
    args = p.parse_args()

    torch.manual_seed(7)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with tempfile.TemporaryDirectory(prefix="choir") as root:
        print("preparing", args.evenings, "evenings of", MINUTES, "minutes", flush=True)
        rng = np.random.default_rng(3)
        for e in range(args.evenings):
            make_recording(os.path.join(root, f"evening_{e:02d}.npz"), rng)
        train_set = ChoirDataset(root)
        loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True)
        model = VoiceNet().to(device)
        opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
        print(f"{len(train_set)} excerpts, {len(loader)} batches per epoch", flush=True)
        for epoch in range(args.epochs):
            start = time.time()
            for it, (x, y) in enumerate(loader):
                x, y = x.to(device), y.to(device)
                out = model(x)
                loss = F.cross_entropy(out, y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                if it % 5 == 0:
                    acc = (out.argmax(1) == y).float().mean().item()
                    print(f"epoch {epoch} it {it:4d}/{len(loader)} loss {loss.item():.4f} acc {acc:.2f}", flush=True)
            print(f"epoch {epoch} took {time.time() - start:.0f}s", flush=True)


if __name__ == "__main__":
    main()
