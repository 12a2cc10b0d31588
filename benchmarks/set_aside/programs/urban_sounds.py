"""Urban sound classification: features are extracted once and kept, then a CRNN is trained."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

SR, SECONDS, N_FFT, HOP, MELS = 16000, 2, 512, 320, 48
CLASSES = ["siren", "drill", "dog_bark", "horn", "jackhammer", "music", "children", "engine"]


def clip(label, rng):
    t = np.arange(SR * SECONDS) / SR
    f = 180 * 1.28 ** label * rng.uniform(0.8, 1.25)
    x = np.sin(2 * np.pi * f * t + (label % 3) * 3 * np.sin(2 * np.pi * 4 * t))
    x *= 0.5 + 0.5 * np.sign(np.sin(2 * np.pi * (1 + label % 4) * t + rng.uniform(0, 6)))
    return (x + rng.normal(0, rng.uniform(2, 5), len(t))).astype(np.float32)


def mel_filters():
    pts = 700 * (10 ** (np.linspace(0, 2595 * np.log10(1 + SR / 2 / 700), MELS + 2) / 2595) - 1)
    bins = np.floor((N_FFT + 1) * pts / SR).astype(int)
    fb = np.zeros((N_FFT // 2 + 1, MELS), np.float32)
    for m in range(MELS):
        a, b, c = bins[m], max(bins[m + 1], bins[m] + 1), max(bins[m + 2], bins[m] + 2)
        fb[a:b, m] = np.linspace(0, 1, b - a, endpoint=False)
        fb[b:c, m] = np.linspace(1, 0, c - b, endpoint=False)
    return torch.from_numpy(fb)


def extract(n, seed, name):
    rng, fb, window = np.random.default_rng(seed), mel_filters(), torch.hann_window(N_FFT)
    feats, labels, t0 = [], [], time.time()
    for i in range(n):
        y = int(rng.integers(0, len(CLASSES)))
        spec = torch.stft(torch.from_numpy(clip(y, rng)), N_FFT, HOP, window=window, return_complex=True).abs() ** 2
        feats.append(torch.log(spec.t() @ fb + 1e-6))
        labels.append(y)
        if (i + 1) % 500 == 0:
            print(f"features {name}: {i + 1}/{n} ({(i + 1) / (time.time() - t0):.0f} clips/s)", flush=True)
    x = torch.stack(feats)
    return TensorDataset((x - x.mean()) / x.std(), torch.tensor(labels))


class CRNN(nn.Module):
    def __init__(self):
        super().__init__()
        def block(i, o):
            return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2))
        self.cnn = nn.Sequential(block(1, 16), block(16, 32), block(32, 48))
        self.gru = nn.GRU(48 * MELS // 8, 64, batch_first=True, bidirectional=True)
        self.fc = nn.Sequential(nn.Dropout(0.3), nn.Linear(128, len(CLASSES)))

    def forward(self, x):
        h = self.cnn(x.unsqueeze(1)).permute(0, 2, 1, 3).flatten(2)
        h, _ = self.gru(h)
        return self.fc(h.mean(1))


def mixup(x, y, alpha=0.3):
    lam = float(np.random.beta(alpha, alpha))
    perm = torch.randperm(len(x), device=x.device)
    return lam * x + (1 - lam) * x[perm], y, y[perm], lam


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=40)
    ap.add_argument("--clips", type=int, default=5000)
    ap.add_argument("--lr", type=float, default=8e-4)
    a = ap.parse_args()
    torch.manual_seed(0)
    np.random.seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train, val = extract(a.clips, 1, "train"), extract(250, 2, "val")
    loader, val_loader = DataLoader(train, 32, shuffle=True, drop_last=True), DataLoader(val, 64)
    net = CRNN().to(device)
    opt = torch.optim.AdamW(net.parameters(), lr=a.lr, weight_decay=1e-2)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, a.lr, total_steps=a.epochs * len(loader), pct_start=0.2)
    ce = nn.CrossEntropyLoss()
    for epoch in range(a.epochs):
        net.train()
        for i, (x, y) in enumerate(loader):
            x, ya, yb, lam = mixup(x.to(device), y.to(device))
            out = net(x)
            loss = lam * ce(out, ya) + (1 - lam) * ce(out, yb)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            if i % 10 == 0:
                print(f"epoch {epoch} {i}/{len(loader)} loss {loss.item():.4f} lr {sched.get_last_lr()[0]:.1e}", flush=True)
        net.eval()
        loss = hits = 0.0
        with torch.no_grad():
            for x, y in val_loader:
                out = net(x.to(device)).cpu()
                loss += ce(out, y).item() * len(y)
                hits += (out.argmax(1) == y).sum().item()
        print(f"epoch {epoch} val loss {loss / len(val):.4f} acc {hits / len(val):.3f}", flush=True)


if __name__ == "__main__":
    main()
