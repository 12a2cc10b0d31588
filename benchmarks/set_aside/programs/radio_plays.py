"""Which speaker of a radio play is it?  The clips are packed one by one, as the broadcaster sent them."""
import argparse
import os
import pathlib
import subprocess
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


def record(folder, clips, speakers, rng):
    voices = rng.uniform(80, 320, speakers)
    t = np.arange(8000) / 8000
    labels = rng.integers(0, speakers, clips)
    for i, label in enumerate(labels):
        f0 = voices[label] * (1 + 0.01 * rng.standard_normal())
        wave = sum(np.sin(2 * np.pi * f0 * k * t + rng.uniform(0, 6)) / k for k in range(1, 6)) + 0.4 * rng.standard_normal(len(t))
        (folder / f"{i:05d}.pcm").write_bytes((6000 * wave).astype(np.int16).tobytes())
    subprocess.run(["gzip", "-1", *map(str, sorted(folder.glob("*.pcm")))], check=True)
    return labels


def decode(path):
    # the helper of the old project: anything that a command line can read
    out = subprocess.run(f"gzip -dc '{path}' | tail -c 16000", shell=True, capture_output=True, check=True, executable="/bin/bash").stdout
    return np.frombuffer(out, np.int16).astype(np.float32) / 6000


class Clips(Dataset):
    def __init__(self, folder, labels):
        self.paths, self.labels = sorted(folder.glob("*.gz")), labels

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, i):
        return torch.from_numpy(decode(self.paths[i])), int(self.labels[i])


class Speaker(nn.Module):
    def __init__(self, speakers, d=48):
        super().__init__()
        self.window = torch.hann_window(256)
        self.body = nn.Sequential(nn.Conv1d(129, d, 5, padding=2), nn.ReLU(), nn.Conv1d(d, d, 5, padding=2), nn.ReLU())
        self.head = nn.Linear(d, speakers)

    def forward(self, x):
        spec = torch.stft(x, 256, 128, window=self.window, return_complex=True).abs().log1p()
        return self.head(self.body(spec).mean(-1))


def run(a):
    torch.manual_seed(a.seed)
    with tempfile.TemporaryDirectory(prefix="plays") as tmp:
        folder = pathlib.Path(tmp)
        labels = record(folder, 800, 16, np.random.default_rng(a.seed))
        loader = DataLoader(Clips(folder, labels), a.bs, shuffle=True, num_workers=0)
        model = Speaker(16)
        optimizer = torch.optim.Adam(model.parameters(), 2e-3)
        n, start = 0, time.time()
        for epoch in range(1000):
            hits = seen = 0
            for wave, label in loader:
                logits = model(wave)
                loss = F.cross_entropy(logits, label)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                hits, seen, n = hits + (logits.argmax(1) == label).sum().item(), seen + len(label), n + 1
                if n % 5 == 0:
                    print(f"{time.time() - start:7.1f}s  epoch {epoch}  {seen:4d}/{len(labels)} clips   loss {loss.item():.3f}   right {100 * hits / seen:.0f}%", flush=True)
                if time.time() - start > a.seconds:
                    return


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--bs", type=int, default=16)
    p.add_argument("--seed", type=int, default=3)
    p.add_argument("--seconds", type=float, default=float(os.environ.get("BUDGET", 205)))
    run(p.parse_args())
