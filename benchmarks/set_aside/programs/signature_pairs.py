"""Siamese network for signature verification (course project, part 2).

Pairs of signatures of one writer should be near each other, pairs of two writers at least `margin` apart.
"""
import argparse
import math
import random
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


def draw(writer, rng, size=48):
    """A signature: a curve whose frequencies belong to the writer."""
    t = np.linspace(0, 1, 400)
    f = writer["freq"] + rng.normal(0, 0.05, 4)
    p = writer["phase"] + rng.normal(0, 0.12, 4)
    x = 0.15 + 0.7 * t + 0.06 * np.sin(2 * math.pi * f[0] * t + p[0]) + 0.04 * np.sin(2 * math.pi * f[1] * t + p[1])
    y = 0.5 + 0.22 * np.sin(2 * math.pi * f[2] * t + p[2]) + 0.12 * np.sin(2 * math.pi * f[3] * t + p[3])
    img = np.zeros((size, size), np.float32)
    xi = np.clip((x * size).astype(int), 0, size - 1)
    yi = np.clip((y * size).astype(int), 0, size - 1)
    img[yi, xi] = 1.0
    img[np.clip(yi + 1, 0, size - 1), xi] = 0.7
    return img


class Signatures:
    def __init__(self, n_writers, per_writer, seed):
        rng = np.random.default_rng(seed)
        self.images = []
        for _ in range(n_writers):
            writer = {"freq": rng.uniform(0.8, 6.0, 4), "phase": rng.uniform(0, 6.28, 4)}
            self.images.append(np.stack([draw(writer, rng) for _ in range(per_writer)]))
        self.n, self.k = n_writers, per_writer

    def shift(self, img):
        return np.roll(img, (random.randint(-2, 2), random.randint(-2, 2)), (0, 1))

    def sample_pair(self, same):
        w1 = random.randrange(self.n)
        w2 = w1
        if not same:
            while w2 == w1:
                w2 = random.randrange(self.n)
        a = self.images[w1][random.randrange(self.k)]
        b = self.images[w2][random.randrange(self.k)]
        return self.shift(a), self.shift(b)

    def batch(self, size):
        same = np.array([i % 2 == 0 for i in range(size)])
        pairs = [self.sample_pair(s) for s in same]
        a = torch.from_numpy(np.stack([p[0] for p in pairs]))[:, None]
        b = torch.from_numpy(np.stack([p[1] for p in pairs]))[:, None]
        return a, b, torch.from_numpy(same.astype(np.float32))


class SiameseNet(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 24, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(24, 48, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(48, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        )
        self.fc = nn.Sequential(nn.Linear(64 * 6 * 6, 128), nn.ReLU(), nn.Linear(128, dim))

    def embed(self, x):
        return self.fc(self.conv(x).flatten(1))

    def forward(self, a, b):
        return self.embed(a), self.embed(b)


class ContrastiveLoss(nn.Module):
    """Hadsell, Chopra and LeCun 2006."""

    def __init__(self, margin=1.0):
        super().__init__()
        self.margin = margin

    def forward(self, e1, e2, same):
        d = torch.sqrt(torch.sum((e1 - e2) ** 2, dim=1))
        pos = same * d ** 2
        neg = (1 - same) * F.relu(self.margin - d) ** 2
        return torch.mean(pos + neg)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20000)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=5e-4)
    parser.add_argument("--print_every", type=int, default=20)
    args = parser.parse_args()

    random.seed(5)
    torch.manual_seed(3)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    data = Signatures(n_writers=30, per_writer=260, seed=1)
    print("Loaded %d signatures of %d writers" % (data.n * data.k, data.n))
    net = SiameseNet().to(device)
    criterion = ContrastiveLoss(margin=1.0)
    optimizer = torch.optim.Adam(net.parameters(), lr=args.lr)

    start = time.time()
    running = []
    for step in range(1, args.steps + 1):
        a, b, same = data.batch(args.batch_size)
        e1, e2 = net(a.to(device), b.to(device))
        loss = criterion(e1, e2, same.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running.append(loss.item())
        if step % args.print_every == 0:
            print("Step [%d/%d]  Loss: %.4f  Time: %.0fs" % (step, args.steps, sum(running) / len(running), time.time() - start))
            running = []


if __name__ == "__main__":
    main()
