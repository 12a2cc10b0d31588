#!/usr/bin/env python3
"""Heat demand of buildings, hour by hour, from weather and building data (MLP with categorical embeddings)."""
import argparse
import time

import numpy as np
import torch
from torch import nn


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--width", type=int, default=384)
    p.add_argument("--batch-size", type=int, default=256)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--time-limit", type=float, default=210, help="seconds")
    return p.parse_args()


class Scaler:
    def fit(self, x):
        self.mean, self.std = x.mean(0), x.std(0)
        return self

    def transform(self, x):
        return (x - self.mean) / self.std


def table(n, seed):
    rng = np.random.default_rng(seed)
    temp = rng.normal(9, 8, n)
    sun = rng.gamma(2, 120, n)
    area = rng.lognormal(7.2, 0.6, n)
    year = rng.integers(1900, 2023, n)
    wind = rng.weibull(2, n) * 4
    hour = rng.integers(0, 24, n)
    zone = rng.integers(0, 30, n)
    heat = area / 1000 * np.maximum(0, 19 - temp) * (1.6 - (year - 1900) / 160) + 0.1 * wind * area / 1000 - 0.004 * sun
    heat = heat * (1 + 0.2 * np.cos((hour - 6) / 24 * 6.28)) + 0.4 * rng.standard_normal(n)
    return np.stack([temp, sun, area, year, wind, hour], 1).astype(np.float32), zone, heat.astype(np.float32)


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.zone = nn.Embedding(30, 16)
        self.body = nn.Sequential(
            nn.Linear(22, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1)
        )

    def forward(self, x, zone):
        return self.body(torch.cat([x, self.zone(zone)], 1)).squeeze(1)


def main():
    args = get_args()
    torch.manual_seed(0)
    x, z, y = table(24000, 1)
    xv, zv, yv = table(4000, 2)
    xs, ys = Scaler().fit(x), Scaler().fit(y)
    x, y, yv = xs.transform(x), ys.transform(y), ys.transform(yv)
    x, z, y, xv, zv, yv = map(torch.as_tensor, (x, z, y, xv, zv, yv))
    net = Net(args.width)
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr)
    best, began = 1e9, time.time()
    for epoch in range(1, 100000):
        net.train()
        total = 0.0
        for idx in torch.randperm(len(x)).split(args.batch_size):
            loss = nn.functional.mse_loss(net(x[idx], z[idx]), y[idx])
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            total += loss.item() * len(idx)
        net.eval()
        with torch.no_grad():
            val = nn.functional.mse_loss(net(xv, zv), yv).item()
        best = min(best, val)
        print(f"epoch {epoch:4d} | train_loss {total / len(x):.5f} | val_loss {val:.5f} | best {best:.5f} | {time.time() - began:.0f}s", flush=True)
        if time.time() - began > args.time_limit:
            break


if __name__ == "__main__":
    main()
