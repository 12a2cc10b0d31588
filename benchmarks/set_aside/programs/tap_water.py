"""Forecast of chlorine in tap water from the network's sensors. Lightning, two devices on one server.

The measurements lie in csv shards that are too large for memory in production, hence an IterableDataset.
"""
import csv
import os
import random
import tempfile

import lightning as L
import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, IterableDataset

DATA = os.environ.setdefault("TAP_WATER_DIR", tempfile.mkdtemp(prefix="tapwater_"))
SHARDS, ROWS, SENSORS, WINDOW = 8, 1500, 12, 48


def export_shards():
    rng = np.random.default_rng(3)
    daily = rng.uniform(0, 6.28, SENSORS)
    for s in range(SHARDS):
        t = np.arange(ROWS)[:, None] / 24.0
        phase = daily + rng.normal(0, 0.2, SENSORS)
        x = np.sin(2 * np.pi * t + phase) + 0.4 * np.sin(2 * np.pi * t / 7 + phase) + rng.normal(0, 0.2, (ROWS, SENSORS))
        with open(os.path.join(DATA, f"zone_{s}.csv"), "w", newline="") as f:
            csv.writer(f).writerows(np.round(x, 4).tolist())


class Windows(IterableDataset):
    """Reads the zones in random order, and shuffles the windows in a buffer."""

    def __init__(self, buffer=512):
        self.buffer = buffer
        self.epoch = 0

    def windows(self, path):
        with open(path, newline="") as f:
            rows = []
            for row in csv.reader(f):
                rows.append([float(v) for v in row])
                if len(rows) == WINDOW + 1:
                    a = torch.tensor(rows)
                    yield a[:-1], a[-1]
                    rows = rows[1:]

    def __iter__(self):
        rng = random.Random(1234 + self.epoch)
        self.epoch += 1
        files = sorted(os.listdir(DATA))
        rng.shuffle(files)
        buffer = []
        for name in files:
            for item in self.windows(os.path.join(DATA, name)):
                buffer.append(item)
                if len(buffer) >= self.buffer:
                    k = rng.randrange(len(buffer))
                    buffer[k], buffer[-1] = buffer[-1], buffer[k]
                    yield buffer.pop()
        rng.shuffle(buffer)
        yield from buffer


class Chlorine(L.LightningModule):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(SENSORS, 160, num_layers=2, batch_first=True)
        self.out = nn.Linear(160, SENSORS)

    def training_step(self, batch, i):
        x, y = batch
        h, _ = self.rnn(x)
        loss = nn.functional.smooth_l1_loss(self.out(h[:, -1]), y)
        if i % 20 == 0:
            self.print(f"epoch {self.current_epoch} step {self.global_step} loss {loss.item():.4f}", flush=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-4)


if __name__ == "__main__":
    torch.manual_seed(0)
    if int(os.environ.get("LOCAL_RANK", 0)) == 0:
        export_shards()
        print("zones exported to", DATA, flush=True)
    loader = DataLoader(Windows(), batch_size=32, drop_last=True)
    trainer = L.Trainer(
        accelerator="cpu", devices=2, strategy="ddp", max_epochs=60, logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, default_root_dir=DATA,
    )
    trainer.fit(Chlorine(), loader)
