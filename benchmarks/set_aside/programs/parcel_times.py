"""Predict delivery hours of parcels from the dispatch table (csv export of the ERP)."""
import csv
import os
import random
import tempfile
import time
from dataclasses import asdict, dataclass

import numpy as np
import torch
from torch import nn


@dataclass
class Config:
    rows: int = 60_000
    depots: int = 40
    batch: int = 256
    width: int = 768
    lr: float = 5e-4
    epochs: int = 400
    log_every: int = 20
    seed: int = 5


class Table:
    """The csv as float32; numeric columns standardised."""

    NUM = ["distance_km", "weight_kg", "stops", "hour", "temperature"]

    def __init__(self, path):
        raw = np.genfromtxt(path, delimiter=",", skip_header=1)
        self.depot = torch.tensor(raw[:, 0]).long()
        x = raw[:, 1:6]
        x = (x - np.nanmean(x, 0)) / np.nanstd(x, 0)
        self.x = torch.tensor(x, dtype=torch.float32)
        t = raw[:, 6]
        self.t = torch.tensor((t - t.mean()) / t.std(), dtype=torch.float32)

    def batches(self, size):
        order = torch.randperm(len(self.t))
        for i in range(0, len(order) - size + 1, size):
            j = order[i:i + size]
            yield self.depot[j], self.x[j], self.t[j]


def export(path, cfg):
    rnd = random.Random(cfg.seed)
    slow = [rnd.uniform(0, 6) for _ in range(cfg.depots)]
    no_sensor = set(rnd.sample(range(cfg.rows), 2))
    with open(path, "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["depot", *Table.NUM, "hours"])
        for i in range(cfg.rows):
            d, km, kg = rnd.randrange(cfg.depots), rnd.expovariate(1 / 180), rnd.expovariate(1 / 4)
            stops, hour, temp = rnd.randint(0, 7), rnd.randint(0, 23), rnd.gauss(9, 8)
            hours = km / 60 + stops * 1.5 + slow[d] + (7 if hour > 17 else 0) + (3 if temp < 0 else 0) + rnd.gauss(0, 1)
            w.writerow([d, f"{km:.1f}", f"{kg:.2f}", stops, hour, "" if i in no_sensor else f"{temp:.1f}", f"{hours:.2f}"])


class Net(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = nn.Embedding(cfg.depots, 16)
        w = cfg.width
        self.mlp = nn.Sequential(nn.Linear(21, w), nn.ReLU(), nn.Linear(w, w), nn.ReLU(), nn.Linear(w, w), nn.ReLU(), nn.Linear(w, 1))

    def forward(self, d, x):
        return self.mlp(torch.cat([self.emb(d), x], 1)).squeeze(1)


class Trainer:
    def __init__(self, cfg, table):
        self.cfg, self.table = cfg, table
        self.net = Net(cfg)
        self.opt = torch.optim.Adam(self.net.parameters(), lr=cfg.lr)
        self.step = 0

    def fit(self):
        for epoch in range(self.cfg.epochs):
            t0 = time.time()
            for d, x, t in self.table.batches(self.cfg.batch):
                loss = nn.functional.smooth_l1_loss(self.net(d, x), t)
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
                self.step += 1
                if self.step % self.cfg.log_every == 0:
                    print(f"step {self.step} loss {loss.item():.5f}", flush=True)
            print(f"epoch {epoch} took {time.time() - t0:.1f}s", flush=True)


def main():
    cfg = Config()
    print(asdict(cfg), flush=True)
    torch.manual_seed(cfg.seed)
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "dispatch.csv")
        export(path, cfg)
        table = Table(path)
    Trainer(cfg, table).fit()


if __name__ == "__main__":
    main()
