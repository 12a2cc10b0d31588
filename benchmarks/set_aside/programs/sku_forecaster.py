#!/usr/bin/env python
"""Daily demand per SKU: autoregressive GRU with a Gaussian head, windows scaled by their own level."""
import argparse
import json
import logging
import math
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(level=logging.INFO, format="%(asctime)s | %(levelname)s | %(message)s")
log = logging.getLogger("forecaster")


@dataclass
class WindowSpec:
    context: int = 56
    horizon: int = 14
    stride: int = 7


def simulate_sales(n_sku, n_days, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(n_days)
    level = rng.lognormal(1.6, 0.9, (n_sku, 1))
    weekly = 1 + 0.35 * np.sin(2 * np.pi * (t[None] + rng.integers(0, 7, (n_sku, 1))) / 7)
    yearly = 1 + 0.4 * np.sin(2 * np.pi * (t[None] + rng.integers(0, 365, (n_sku, 1))) / 365)
    promo = 1 + 1.2 * (rng.random((n_sku, n_days)) < 0.02)
    sales = rng.poisson(level * weekly * yearly * promo).astype(np.float32)
    # delisted articles: nothing sold after their last day on the shelf
    for sku in rng.choice(n_sku, 8, replace=False):
        sales[sku, n_days - rng.integers(75, 110):] = 0
    return sales


class SalesWindows(Dataset):
    def __init__(self, sales, spec, first, last):
        self.sales = torch.from_numpy(sales)
        self.spec = spec
        length = spec.context + spec.horizon
        starts = range(first, last - length + 1, spec.stride)
        self.index = [(s, t) for s in range(len(sales)) for t in starts]

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        sku, t = self.index[i]
        length = self.spec.context + self.spec.horizon
        window = self.sales[sku, t:t + length]
        dow = (torch.arange(t, t + length) % 7)
        return sku, window, dow


class DemandNet(nn.Module):
    def __init__(self, n_sku, hidden=160, layers=2, emb=24):
        super().__init__()
        self.sku = nn.Embedding(n_sku, emb)
        self.dow = nn.Embedding(7, 8)
        self.rnn = nn.GRU(1 + emb + 8 + 1, hidden, layers, batch_first=True, dropout=0.1)
        self.mu = nn.Linear(hidden, 1)
        self.sigma = nn.Linear(hidden, 1)

    def forward(self, sku, lagged, dow, log_scale):
        T = lagged.shape[1]
        x = torch.cat([lagged.unsqueeze(-1), self.sku(sku).unsqueeze(1).expand(-1, T, -1), self.dow(dow),
                       log_scale.view(-1, 1, 1).expand(-1, T, 1)], -1)
        h, _ = self.rnn(x)
        return self.mu(h).squeeze(-1), nn.functional.softplus(self.sigma(h).squeeze(-1)) + 1e-3


def window_loss(model, batch, spec, device):
    sku, window, dow = (b.to(device) for b in batch)
    scale = window[:, :spec.context].mean(1, keepdim=True)
    z = window / scale
    lagged, target = z[:, :-1], z[:, 1:]
    mu, sigma = model(sku, lagged, dow[:, 1:], torch.log1p(scale))
    nll = torch.log(sigma) + 0.5 * ((target - mu) / sigma) ** 2 + 0.5 * math.log(2 * math.pi)
    return nll.mean()


class Forecaster:
    def __init__(self, args):
        self.args = args
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.spec = WindowSpec()
        sales = simulate_sales(args.skus, args.days, args.seed)
        split = args.days - 120
        self.train_set = SalesWindows(sales, self.spec, 0, args.days - 7)
        self.val_set = SalesWindows(sales[:400], self.spec, split - 140, split)
        self.loader = DataLoader(self.train_set, args.batch_size, shuffle=True, drop_last=True)
        self.model = DemandNet(args.skus).to(self.device)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=args.lr)
        self.dir = Path(args.out)
        self.dir.mkdir(parents=True, exist_ok=True)
        self.metrics = open(self.dir / "metrics.jsonl", "w")

    def write(self, **kw):
        self.metrics.write(json.dumps(kw) + "\n")
        self.metrics.flush()

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        losses = [window_loss(self.model, b, self.spec, self.device).item()
                  for b in DataLoader(self.val_set, 512)]
        self.model.train()
        return float(np.mean(losses))

    def fit(self):
        log.info("%d windows for training, %d for validation, device=%s", len(self.train_set), len(self.val_set), self.device)
        step, best = 0, float("inf")
        for epoch in range(self.args.epochs):
            t = time.time()
            for batch in self.loader:
                loss = window_loss(self.model, batch, self.spec, self.device)
                self.opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                self.opt.step()
                step += 1
                if step % 10 == 0:
                    log.info("epoch %d step %d nll %.4f (%.2f it/s)", epoch, step, loss.item(), 10 / (time.time() - t))
                    self.write(step=step, nll=loss.item())
                    t = time.time()
                if step % 200 == 0:
                    val = self.validate()
                    log.info("step %d validation nll %.4f best %.4f", step, val, best)
                    if val < best:
                        best = val
                        torch.save(self.model.state_dict(), self.dir / "best.pt")


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--skus", type=int, default=1500)
    p.add_argument("--days", type=int, default=540)
    p.add_argument("--batch-size", type=int, default=128)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--seed", type=int, default=11)
    p.add_argument("--out", default=str(Path(tempfile.gettempdir()) / "sku_forecaster"))
    args = p.parse_args()
    torch.manual_seed(args.seed)
    Forecaster(args).fit()
