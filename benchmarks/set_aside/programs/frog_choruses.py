"""Which frogs sing in this second of a pond recording? Multi-label, 6 species.

Recordings are kept as one .npz for each night (audio + annotation), as they came from the field team.
"""
import shutil
import signal
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

SR = 16000
MINUTES = 1.5
SPECIES = ["pool", "tree", "agile", "moor", "natterjack", "midwife"]
PITCH = [900, 2600, 1200, 500, 1700, 1350]
RATE = [7.0, 5.0, 3.0, 2.0, 11.0, 1.2]


def record_night(path, rng):
    n = int(SR * 60 * MINUTES)
    t = np.arange(n) / SR
    audio = rng.normal(0, 0.05, n)
    active = np.repeat(rng.random((int(60 * MINUTES), len(SPECIES))) < 0.3, SR, axis=0)
    for k in range(len(SPECIES)):
        call = np.sin(2 * np.pi * PITCH[k] * t) * (np.sin(2 * np.pi * RATE[k] * t) > 0.3)
        audio += 0.2 * rng.uniform(0.5, 1.0) * call * active[:, k]
    np.savez_compressed(path, audio=audio.astype(np.float32), labels=active[::SR].astype(np.float32))


class PondDataset(Dataset):
    def __init__(self, root):
        self.files = sorted(Path(root).glob("*.npz"))
        self.seconds = int(60 * MINUTES)
        self.window = torch.hann_window(512)

    def __len__(self):
        return len(self.files) * self.seconds

    def __getitem__(self, index):
        night = np.load(self.files[index // self.seconds])
        s = index % self.seconds
        audio = torch.from_numpy(night["audio"][s * SR : (s + 1) * SR])
        spec = torch.stft(audio, 512, 160, window=self.window, return_complex=True).abs()
        return torch.log1p(10 * spec[:128])[None], torch.from_numpy(night["labels"][s])


class FrogNet(nn.Module):
    def __init__(self, n_out):
        super().__init__()
        layers, c = [], 1
        for width in (16, 32, 64):
            layers += [nn.Conv2d(c, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2)]
            c = width
        self.body = nn.Sequential(*layers)
        self.out = nn.Linear(c * 2, n_out)

    def forward(self, x):
        h = self.body(x).flatten(2)
        return self.out(torch.cat([h.mean(2), h.amax(2)], 1))


def main():
    torch.manual_seed(0)
    root = tempfile.mkdtemp(prefix="pond-")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    try:
        rng = np.random.default_rng(11)
        for night in range(8):
            record_night(Path(root) / f"night_{night:02d}.npz", rng)
        dataset = PondDataset(root)
        loader = DataLoader(dataset, batch_size=16, shuffle=True, drop_last=True)
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        print(f"{len(dataset)} windows, {len(loader)} iterations per epoch, device={device}")
        model = FrogNet(len(SPECIES)).to(device)
        optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
        criterion = nn.BCEWithLogitsLoss()
        for epoch in range(40):
            for it, (x, y) in enumerate(loader):
                x, y = x.to(device), y.to(device)
                loss = criterion(model(x), y)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                if it % 4 == 0:
                    print(f"epoch {epoch} iter {it:4d} bce {loss.item():.4f}")
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
