"""Anomaly score for the compressors of hall 4: forecast the next reading of each sensor."""
from __future__ import annotations

import csv
import tempfile
import warnings
from dataclasses import dataclass
from pathlib import Path

print("compressor hall 4", flush=True)

import lightning as L
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

warnings.filterwarnings("ignore")
SENSORS = ["p_in", "p_out", "t_oil", "t_coolant", "rpm", "current"]


@dataclass
class Config:
    window: int = 48
    batch_size: int = 64
    hidden: int = 96
    lr: float = 3e-4
    max_epochs: int = 20


def historian_export(path: Path, n: int = 60000) -> None:
    """Write a file like the one that the historian sends every night."""
    rng = np.random.default_rng(8)
    t = np.arange(n)
    load = np.sin(t / 40) + 0.5 * np.sin(t / 7.3) + 0.3 * np.sin(t / 311)
    cols = [a * np.roll(load, k * 3) + b + rng.normal(0, 0.1, n) for k, (a, b) in enumerate([(1, 6), (2, 8), (4, 70), (3, 40), (50, 1480), (9, 85)])]
    with path.open("w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["ts", *SENSORS])
        for i in range(n):
            row = [f"{c[i]:.3f}" for c in cols]
            if i == 31_417:
                row[3] = ""  # the bus was reset
            w.writerow([i, *row])


class Readings(IterableDataset):
    """The weeks one after the other, as the valves age, and the windows of a week in random order."""

    def __init__(self, path: Path, window: int, week: int = 5000):
        with path.open() as f:
            rows = list(csv.reader(f))[1:]
        data = np.array([[float(v) if v else np.nan for v in r[1:]] for r in rows], dtype=np.float32)
        data = (data - np.nanmean(data, 0)) / np.nanstd(data, 0)
        self.data, self.window, self.week = torch.from_numpy(data), window, week

    def __len__(self):
        return len(self.data) - self.window - 1

    def __iter__(self):
        for begin in range(0, len(self.data), self.week):
            end = min(begin + self.week, len(self.data) - self.window - 1)
            for s in (begin + torch.randperm(end - begin)).tolist():
                yield self.data[s : s + self.window], self.data[s + self.window]


class Forecaster(L.LightningModule):
    def __init__(self, cfg: Config):
        super().__init__()
        self.cfg = cfg
        self.rnn = nn.GRU(len(SENSORS), cfg.hidden, num_layers=2, batch_first=True)
        self.out = nn.Linear(cfg.hidden, len(SENSORS))

    def training_step(self, batch, _):
        x, y = batch
        h, _ = self.rnn(x)
        loss = nn.functional.smooth_l1_loss(self.out(h[:, -1]), y)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), self.cfg.lr)


class PrintLoss(L.Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_step % 20 == 0:
            print(f"epoch={trainer.current_epoch} step={trainer.global_step} train_loss={outputs['loss'].item():.5f}", flush=True)


def main() -> None:
    cfg = Config()
    L.seed_everything(1)
    with tempfile.TemporaryDirectory() as tmp:
        path = Path(tmp) / "historian.csv"
        historian_export(path)
        data = Readings(path, cfg.window)
    loader = DataLoader(data, cfg.batch_size, drop_last=True)
    print(f"{len(data)} windows of {cfg.window} readings, {len(loader)} batches", flush=True)
    trainer = L.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=cfg.max_epochs,
        gradient_clip_val=1.0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        callbacks=[PrintLoss()],
    )
    trainer.fit(Forecaster(cfg), loader)


if __name__ == "__main__":
    main()
