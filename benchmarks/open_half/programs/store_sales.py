"""Daily sales per store, 7 days ahead. Trainer skeleton shared by the forecasting team."""
from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s", datefmt="%H:%M:%S")
log = logging.getLogger("sales")


@dataclass
class ModelConfig:
    hidden: int = 96
    layers: int = 2
    horizon: int = 7
    window: int = 56


@dataclass
class TrainConfig:
    lr: float = 2e-3
    batch_size: int = 64
    epochs: int = 30
    clip: float = 1.0
    log_every: int = 20
    model: ModelConfig = field(default_factory=ModelConfig)


def simulate_sales(stores: int = 180, days: int = 900, seed: int = 5) -> np.ndarray:
    rng = np.random.default_rng(seed)
    t = np.arange(days)
    level = rng.uniform(40, 220, (stores, 1))
    week = 1 + 0.35 * np.sin(2 * math.pi * (t[None] + rng.integers(0, 7, (stores, 1))) / 7)
    year = 1 + 0.2 * np.sin(2 * math.pi * t[None] / 365)
    sales = level * week * year * rng.gamma(30, 1 / 30, (stores, days))
    sales = np.maximum(np.round(sales), 1.0)
    # closed for the inventory
    sales[141, 655] = 0
    return sales.astype(np.float32)


class Windows(Dataset):
    def __init__(self, sales: np.ndarray, cfg: ModelConfig):
        self.sales = torch.from_numpy(sales)
        self.scale = self.sales.mean(1, keepdim=True)
        self.w, self.h = cfg.window, cfg.horizon
        self.per_store = sales.shape[1] - self.w - self.h

    def __len__(self):
        return self.per_store * self.sales.shape[0]

    def __getitem__(self, i):
        s, t = divmod(i, self.per_store)
        x = self.sales[s, t : t + self.w] / self.scale[s]
        y = self.sales[s, t + self.w : t + self.w + self.h] / self.scale[s]
        return x.unsqueeze(-1), y


class Forecaster(nn.Module):
    def __init__(self, cfg: ModelConfig):
        super().__init__()
        self.rnn = nn.GRU(1, cfg.hidden, cfg.layers, batch_first=True, dropout=0.1)
        self.out = nn.Linear(cfg.hidden, cfg.horizon)

    def forward(self, x):
        h, _ = self.rnn(x)
        return self.out(h[:, -1])


def mape(pred, target):
    """The number the business looks at."""
    return ((target - pred).abs() / target).mean()


class Trainer:
    def __init__(self, cfg: TrainConfig):
        self.cfg = cfg
        self.data = Windows(simulate_sales(), cfg.model)
        self.model = Forecaster(cfg.model)
        self.opt = torch.optim.Adam(self.model.parameters(), lr=cfg.lr)

    def fit(self):
        loader = DataLoader(self.data, batch_size=self.cfg.batch_size, shuffle=True, drop_last=True)
        log.info("windows=%d batches=%d", len(self.data), len(loader))
        for epoch in range(self.cfg.epochs):
            for i, (x, y) in enumerate(loader):
                loss = mape(self.model(x), y)
                self.opt.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.clip)
                self.opt.step()
                if i % self.cfg.log_every == 0:
                    log.info("epoch=%d it=%d mape=%.4f", epoch, i, loss.item())


if __name__ == "__main__":
    torch.manual_seed(33)
    Trainer(TrainConfig()).fit()
