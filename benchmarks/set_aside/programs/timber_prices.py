#!/usr/bin/env python
"""Prognose der Rundholzpreise (Festmeter) aus Losmerkmalen.

Aufruf: python timber_prices.py [abschnitt.schluessel=wert ...]
"""
import io
import sys
import time

import torch
import torch.nn as nn
import yaml
from torch.utils.data import DataLoader, TensorDataset

DEFAULTS = """
data: {lots: 24000, features: 40, batch_size: 128, seed: 1}
model: {hidden: 512, layers: 4, dropout: 0.1}
optim: {lr: 0.0005, weight_decay: 0.0001}
train: {epochs: 120, print_every: 50}
"""


def load_config(argv):
    cfg = yaml.safe_load(io.StringIO(DEFAULTS))
    for item in argv:
        key, value = item.split("=", 1)
        section, name = key.split(".")
        cfg[section][name] = yaml.safe_load(value)
    return cfg


def lots(cfg):
    """Lose: Baumart, Laenge, Mittendurchmesser, Qualitaet, Region ..."""
    g = torch.Generator().manual_seed(cfg["seed"])
    x = torch.randn(cfg["lots"], cfg["features"], generator=g)
    w = torch.randn(cfg["features"], generator=g) / cfg["features"] ** 0.5
    price = 2.0 * (x @ w) + torch.sin(2 * x[:, 0]) + 0.5 * x[:, 1] * x[:, 2]
    price = price + 0.2 * torch.randn(cfg["lots"], generator=g)
    return x, (price - price.mean()) / price.std()


class PriceNet(nn.Module):
    def __init__(self, features, hidden, layers, dropout):
        super().__init__()
        blocks, width = [], features
        for _ in range(layers):
            blocks += [nn.Linear(width, hidden), nn.LayerNorm(hidden), nn.GELU(), nn.Dropout(dropout)]
            width = hidden
        self.body = nn.Sequential(*blocks)
        self.out = nn.Linear(width, 1)

    def forward(self, x):
        return self.out(self.body(x))


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        torch.manual_seed(cfg["data"]["seed"])
        x, y = lots(cfg["data"])
        self.loader = DataLoader(TensorDataset(x, y), cfg["data"]["batch_size"], shuffle=True, drop_last=True)
        self.model = PriceNet(cfg["data"]["features"], **cfg["model"])
        self.criterion = nn.MSELoss()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), **cfg["optim"])

    def run(self):
        step, start, laufend = 0, time.time(), None
        for epoch in range(self.cfg["train"]["epochs"]):
            for x, y in self.loader:
                loss = self.criterion(self.model(x), y)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                step += 1
                laufend = loss.item() if laufend is None else 0.95 * laufend + 0.05 * loss.item()
                if step % self.cfg["train"]["print_every"] == 0:
                    print(f"Epoche {epoch} Schritt {step} mse {laufend:.4f} ({time.time() - start:.0f} s)", flush=True)


if __name__ == "__main__":
    config = load_config(sys.argv[1:])
    print(yaml.safe_dump(config), flush=True)
    Trainer(config).run()
