"""Forecasts the tide at a gauge; the horizon is made longer in stages (Accelerate).

    python tidal_memory.py --stages 12 24 48 96
"""
import argparse
import logging
import time

import numpy as np
import torch
import torch.nn as nn
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("tides")
PERIODS = [12.42, 12.0, 25.82, 23.93, 6.21]


def gauge(hours, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)
    level = sum(a * np.sin(2 * np.pi * t / p + rng.uniform(0, 6)) for a, p in zip((1.0, 0.35, 0.2, 0.25, 0.1), PERIODS))
    surge = np.convolve(rng.normal(0, 0.05, hours), np.exp(-np.arange(60) / 15), mode="full")[:hours]
    return (level + surge).astype(np.float32)


class Pieces(Dataset):
    def __init__(self, level, past, ahead, count, seed):
        self.level, self.past, self.ahead = torch.from_numpy(level), past, ahead
        self.starts = np.random.default_rng(seed).integers(0, len(level) - past - ahead, count)

    def __len__(self):
        return len(self.starts)

    def __getitem__(self, i):
        s = int(self.starts[i])
        return self.level[s:s + self.past], self.level[s + self.past:s + self.past + self.ahead]


class TideNet(nn.Module):
    """Reads the past, then writes hour by hour and reads what it wrote."""

    def __init__(self, hidden=128):
        super().__init__()
        self.reader = nn.GRU(1, hidden, batch_first=True)
        self.writer = nn.GRUCell(1, hidden)
        self.out = nn.Linear(hidden, 1)

    def forward(self, past, ahead):
        _, h = self.reader(past[..., None])
        h, x = h[0], past[:, -1:]
        written = []
        for _ in range(ahead):
            h = self.writer(x, h)
            x = x + self.out(h)
            written.append(x)
        return torch.cat(written, 1)


def evaluate(model, loader):
    """Always on the longest horizon, so that the stages can be compared."""
    model.eval()
    errors = []
    with torch.no_grad():
        for past, future in loader:
            errors.append((model(past, future.shape[1]) - future).pow(2).mean(1))
    model.train()
    return torch.cat(errors).mean().sqrt().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--stages", type=int, nargs="+", default=[12, 24, 48, 96])
    p.add_argument("--epochs-per-stage", type=int, default=8)
    p.add_argument("--pieces", type=int, default=3200)
    p.add_argument("--past", type=int, default=72)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--lr", type=float, default=2e-3)
    args = p.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    torch.set_num_threads(1)
    set_seed(5)
    accelerator = Accelerator()
    level = gauge(9000, 1)
    test = DataLoader(Pieces(level[7000:], args.past, args.stages[-1], 256, 3), 128)
    model = TideNet()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    model, optimizer, test = accelerator.prepare(model, optimizer, test)
    log.info("curriculum of horizons %s on %s", args.stages, accelerator.device)

    for number, ahead in enumerate(args.stages, 1):
        train = DataLoader(Pieces(level[:7000], args.past, ahead, args.pieces, number), args.batch_size, shuffle=True)
        train = accelerator.prepare(train)
        for group in optimizer.param_groups:
            group["lr"] = args.lr * 0.6 ** (number - 1)
        log.info("stage %d of %d: the horizon is now %d hours, longer steps and a higher loss are expected", number, len(args.stages), ahead)
        for epoch in range(1, args.epochs_per_stage + 1):
            begin, total = time.time(), 0.0
            for step, (past, future) in enumerate(train, 1):
                loss = nn.functional.mse_loss(model(past, ahead), future)
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                total += loss.item()
                if step % 10 == 0:
                    log.info("stage %d (%d h) epoch %d step %d/%d loss %.4f, %.1f steps/s", number, ahead, epoch, step, len(train),
                             total / step, step / (time.time() - begin))
            log.info("stage %d epoch %d: RMSE over %d hours %.3f m", number, epoch, args.stages[-1], evaluate(model, test))


if __name__ == "__main__":
    main()
