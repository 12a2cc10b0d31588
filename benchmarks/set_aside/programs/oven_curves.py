"""Predicts the temperature of tunnel ovens; metrics go to the plant's own tracker, a sqlite file.

python oven_curves.py --hidden 192 --lr 1e-3
"""
import argparse
import os
import sqlite3
import tempfile
import time

import torch
import torch.nn as nn


class Tracker:
    """A little experiment tracker, so that we need no server."""

    def __init__(self, path, run):
        self.db = sqlite3.connect(path)
        self.db.execute("PRAGMA synchronous=OFF")
        self.db.execute("CREATE TABLE metrics (run TEXT, step INTEGER, name TEXT, value REAL, at REAL)")
        self.run = run

    def log(self, step, **metrics):
        now = time.time()
        rows = [(self.run, step, name, float(value), now) for name, value in metrics.items()]
        self.db.executemany("INSERT INTO metrics VALUES (?, ?, ?, ?, ?)", rows)
        self.db.commit()

    def summary(self):
        """Best, last and smoothed value of each metric, as the dashboard shows them."""
        found = {}
        cursor = self.db.execute("SELECT name, value FROM metrics WHERE run = ? ORDER BY step", (self.run,))
        for name, value in cursor:
            best, smooth = found.get(name, (value, None, value))[0::2]
            found[name] = (min(best, value), value, 0.98 * smooth + 0.02 * value)
        return found


class OvenModel(nn.Module):
    def __init__(self, zones, hidden):
        super().__init__()
        self.gru = nn.GRU(zones, hidden, batch_first=True)
        self.norm = nn.LayerNorm(hidden)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, zones))

    def forward(self, x):
        h, _ = self.gru(x)
        return self.head(self.norm(h[:, -1]))


def batch(g, size, zones, length):
    t = torch.arange(length + 1).float()
    period = 20 + 30 * torch.rand(size, zones, 1, generator=g)
    phase = 6.28 * torch.rand(size, zones, 1, generator=g)
    x = torch.sin(6.28 * t / period + phase) + 0.1 * torch.randn(size, zones, length + 1, generator=g)
    x = x.transpose(1, 2)
    return x[:, :-1], x[:, -1]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--hidden", type=int, default=160)
    p.add_argument("--zones", type=int, default=10)
    p.add_argument("--length", type=int, default=48)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--steps", type=int, default=20000)
    args = p.parse_args()
    torch.manual_seed(2)
    g = torch.Generator().manual_seed(2)
    path = os.path.join(tempfile.mkdtemp(prefix="ovens_"), "metrics.db")
    tracker = Tracker(path, run=f"gru{args.hidden}")
    model = OvenModel(args.zones, args.hidden)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    print("tracking to", path, flush=True)
    for step in range(1, args.steps + 1):
        x, y = batch(g, 32, args.zones, args.length)
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        per_layer = {f"grad/{n}": q.grad.norm() for n, q in model.named_parameters()}
        per_layer |= {f"weight/{n}": q.detach().norm() for n, q in model.named_parameters()}
        tracker.log(step, loss=loss.item(), norm=norm, lr=args.lr, **per_layer)
        shown = tracker.summary()
        if step % 25 == 0:
            best, last, smooth = shown["loss"]
            print(f"step {step:5d}  loss {smooth:.4f}  best {best:.4f}  |g| {shown['norm'][1]:.3f}", flush=True)


if __name__ == "__main__":
    main()
