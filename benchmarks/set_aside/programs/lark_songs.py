"""Which lark sings? Small CNN on log-mel-like spectrograms of one-second clips.

The clips lie in one .npy file per recording, as our field recorder cuts them.
"""

import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

SPECIES = ["skylark", "woodlark", "crested", "horned"]
SR = 8000
CFG = dict(batch_size=16, workers=2, epochs=300, lr=5e-4, n_fft=256, hop=64)


def record(folder, per_species=90):
    rng = np.random.default_rng(11)
    t = np.arange(SR) / SR
    for label in range(len(SPECIES)):
        for k in range(per_species):
            f0 = 700 + 500 * label + rng.normal(0, 60)
            chirp = np.sin(2 * np.pi * (f0 * t + (200 + 80 * label) * np.sin(2 * np.pi * (3 + label) * t) / 20))
            clip = chirp * (0.3 + rng.random()) + rng.normal(0, 0.6, SR)
            np.save(os.path.join(folder, f"{label}_{k:03d}.npy"), clip.astype(np.float32))


class LarkClips(Dataset):
    def __init__(self, folder, n_fft, hop):
        self.files = sorted(os.path.join(folder, f) for f in os.listdir(folder))
        self.n_fft, self.hop = n_fft, hop

    def __len__(self):
        return len(self.files)

    def __getitem__(self, index):
        path = self.files[index]
        wav = torch.from_numpy(np.load(path))
        wav = torch.roll(wav, int(torch.randint(0, SR, (1,))))
        spec = torch.stft(wav, self.n_fft, self.hop, window=torch.hann_window(self.n_fft), return_complex=True)
        return torch.log1p(spec.abs())[None], int(os.path.basename(path)[0])


class LarkNet(nn.Module):
    def __init__(self):
        super().__init__()
        layers, c = [], 1
        for o in (12, 24, 48):
            layers += [nn.Conv2d(c, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2)]
            c = o
        self.body = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.3))
        self.head = nn.Linear(c, len(SPECIES))

    def forward(self, x):
        return self.head(self.body(x))


def main():
    with tempfile.TemporaryDirectory(prefix="larks-") as folder:
        record(folder)
        loader = DataLoader(
            LarkClips(folder, CFG["n_fft"], CFG["hop"]),
            batch_size=CFG["batch_size"],
            shuffle=True,
            num_workers=CFG["workers"],
            pin_memory=torch.cuda.is_available(),
            multiprocessing_context="spawn",  # "Cannot re-initialize CUDA in forked subprocess"
        )
        model = LarkNet()
        opt = torch.optim.Adam(model.parameters(), lr=CFG["lr"])
        ce = nn.CrossEntropyLoss()
        print("clips:", len(loader.dataset), "batches:", len(loader))
        for epoch in range(CFG["epochs"]):
            began, seen, right, total = time.time(), 0, 0, 0.0
            for x, y in loader:
                out = model(x)
                loss = ce(out, y)
                opt.zero_grad()
                loss.backward()
                opt.step()
                total += loss.item() * len(y)
                right += (out.argmax(1) == y).sum().item()
                seen += len(y)
            print(f"[{epoch:3d}] loss={total / seen:.4f} acc={right / seen:.3f} ({time.time() - began:.1f}s)")


if __name__ == "__main__":
    main()
