"""Command recognition for the intercom: log-mel front end, CRNN, 12 commands."""
import argparse
import csv
import logging
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset, random_split

log = logging.getLogger("intercom")


@dataclass
class TrainConfig:
    clips: int = 3600
    commands: int = 12
    batch_size: int = 64
    lr: float = 1e-3
    epochs: int = 60
    eval_every: int = 100
    log_every: int = 5
    out_dir: Path = Path(tempfile.gettempdir()) / "intercom_commands"


def synth_logmel(cfg, seed=5, n_mels=40, frames=64):
    rng = np.random.default_rng(seed)
    proto = rng.normal(0, 1, (cfg.commands, n_mels, 10)).astype(np.float32)
    proto = np.repeat(proto, 4, axis=2)
    y = rng.integers(0, cfg.commands, cfg.clips)
    x = rng.normal(0, 1.6, (cfg.clips, n_mels, frames)).astype(np.float32)
    for i, c in enumerate(y):
        shift = rng.integers(0, frames - 40)
        x[i, :, shift:shift + 40] += rng.uniform(0.5, 1.2) * proto[c]
    return TensorDataset(torch.from_numpy(x)[:, None], torch.from_numpy(y))


class CRNN(nn.Module):
    def __init__(self, commands, channels=32, hidden=96):
        super().__init__()
        def stage(a, b):
            return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout2d(0.15))
        self.cnn = nn.Sequential(stage(1, channels), stage(channels, 2 * channels))
        self.rnn = nn.GRU(2 * channels * 10, hidden, batch_first=True, bidirectional=True)
        self.drop = nn.Dropout(0.4)
        self.fc = nn.Linear(2 * hidden, commands)

    def forward(self, x):
        h = self.cnn(x).flatten(1, 2).transpose(1, 2)
        h, _ = self.rnn(h)
        return self.fc(self.drop(h.mean(1)))


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        data = synth_logmel(cfg)
        n_val = len(data) // 8
        train, val = random_split(data, [len(data) - n_val, n_val], generator=torch.Generator().manual_seed(0))
        self.train_loader = DataLoader(train, cfg.batch_size, shuffle=True, drop_last=True)
        self.val_loader = DataLoader(val, 128)
        self.model = CRNN(cfg.commands).to(self.device)
        self.model.train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr, weight_decay=1e-2)
        self.scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, cfg.epochs * len(self.train_loader))
        cfg.out_dir.mkdir(parents=True, exist_ok=True)
        self.metrics = csv.writer(open(cfg.out_dir / "metrics.csv", "w", buffering=1))
        self.metrics.writerow(["step", "split", "loss", "accuracy"])
        self.step, self.best = 0, 0.0

    @torch.no_grad()
    def evaluate(self):
        self.model.eval()
        loss, hits, n = 0.0, 0, 0
        for x, y in self.val_loader:
            logits = self.model(x.to(self.device))
            y = y.to(self.device)
            loss += F.cross_entropy(logits, y, reduction="sum").item()
            hits += (logits.argmax(1) == y).sum().item()
            n += len(y)
        return loss / n, hits / n

    def report(self):
        loss, acc = self.evaluate()
        self.metrics.writerow([self.step, "val", loss, acc])
        log.info("[eval] step %d loss %.4f accuracy %.3f", self.step, loss, acc)
        if acc > self.best:
            self.best = acc
            torch.save({"model": self.model.state_dict(), "step": self.step}, self.cfg.out_dir / "best.pt")

    def fit(self):
        log.info("training on %s, %d batches per epoch", self.device, len(self.train_loader))
        self.report()
        for epoch in range(self.cfg.epochs):
            t0 = time.time()
            for x, y in self.train_loader:
                x, y = x.to(self.device), y.to(self.device)
                loss = F.cross_entropy(self.model(x), y, label_smoothing=0.05)
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
                self.scheduler.step()
                self.step += 1
                if self.step % self.cfg.log_every == 0:
                    log.info("epoch %d step %d loss %.4f lr %.1e", epoch, self.step, loss.item(), self.scheduler.get_last_lr()[0])
                    self.metrics.writerow([self.step, "train", loss.item(), ""])
                if self.step % self.cfg.eval_every == 0:
                    self.report()
            log.info("epoch %d took %.1f s", epoch, time.time() - t0)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=TrainConfig.epochs)
    parser.add_argument("--lr", type=float, default=TrainConfig.lr)
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s: %(message)s")
    torch.manual_seed(1)
    Trainer(TrainConfig(epochs=args.epochs, lr=args.lr)).fit()
