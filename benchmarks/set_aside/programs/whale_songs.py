"""Whale songs: which of eight humpback phrases is in the recording? Log-mel computed on the fly, CNN on top.

python whale_songs.py --workers 14        (the lab's server)
"""
import argparse
import math
import random
import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

RATE, SECONDS = 5000, 2


class Songs(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        r = random.Random(i)
        label = i % 8
        f, slope, out, phase = 90 + 60 * label, r.uniform(-40, 40), [], 0.0
        for k in range(RATE * SECONDS):
            phase += 2 * math.pi * (f + slope * k / RATE) / RATE
            swell = math.exp(-(((k / RATE - 1) / 0.4) ** 2))
            out.append(swell * math.sin(phase) + 0.5 * r.gauss(0, 1))
        x = torch.tensor(out)
        spec = torch.stft(x, 512, 512, window=torch.hann_window(512), return_complex=True).abs()[:64]
        return torch.log1p(spec), label


def collate(batch):
    return torch.stack([b[0] for b in batch]).unsqueeze(1), torch.tensor([b[1] for b in batch])


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--workers", type=int, default=14)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--hours", type=float, default=0.06)
    args = p.parse_args()
    torch.manual_seed(1)
    loader = DataLoader(Songs(64000), args.batch, shuffle=True, num_workers=args.workers, collate_fn=collate, persistent_workers=True)
    net = nn.Sequential(
        nn.Conv2d(1, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(24, 48, 3, padding=1), nn.BatchNorm2d(48), nn.ReLU(), nn.AdaptiveAvgPool2d((8, 1)), nn.Flatten(), nn.Linear(384, 8),
    )
    opt = torch.optim.SGD(net.parameters(), 0.03, momentum=0.9, nesterov=True)
    print("Trainable params:", sum(w.numel() for w in net.parameters()))
    begin, it = time.time(), 0
    for x, y in loader:
        z = net(x)
        loss = nn.functional.cross_entropy(z, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        it += 1
        if it % 4 == 0:
            print(f"[iter {it:05d}] loss={loss.item():.3e} acc={(z.argmax(1) == y).float().mean():.2f} rate={it * args.batch / (time.time() - begin):.2e}/s", flush=True)
        if time.time() - begin > args.hours * 3600:
            break
