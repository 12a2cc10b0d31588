"""Churn propensity for the service desk. Trainer + callbacks + metrics, as in the team template."""
import csv
import os
import tempfile
import time

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Metric:
    def update(self, score, target):
        raise NotImplementedError

    def compute(self):
        raise NotImplementedError


class BinaryAUROC(Metric):
    """exact ROC AUC (rank statistic)"""

    def __init__(self):
        self.scores, self.targets = [], []

    def update(self, score, target):
        self.scores.append(score.detach().cpu().numpy())
        self.targets.append(target.cpu().numpy())

    def compute(self):
        s, t = np.concatenate(self.scores), np.concatenate(self.targets)
        order = np.argsort(s, kind="mergesort")
        ranks = np.empty(len(s))
        ranks[order] = np.arange(1, len(s) + 1)
        pos = t.sum()
        neg = len(t) - pos
        return float((ranks[t == 1].sum() - pos * (pos + 1) / 2) / max(1.0, pos * neg))

    def reset(self):
        self.scores, self.targets = [], []


class CsvLogger:
    def __init__(self, folder):
        self.f = open(os.path.join(folder, "metrics.csv"), "w", newline="")
        self.w = csv.writer(self.f)

    def log(self, **row):
        self.w.writerow(row.values())


class Trainer:
    def __init__(self, model, optimizer, metrics, logger, every=25):
        self.model, self.optimizer, self.metrics, self.logger, self.every = model, optimizer, metrics, logger, every
        self.global_step = 0

    def fit(self, loader, epochs):
        for epoch in range(epochs):
            for x, y in loader:
                loss, out = self.training_step(x, y)
                for m in self.metrics.values():
                    m.update(out.sigmoid(), y)
                values = {k: m.compute() for k, m in self.metrics.items()}
                self.global_step += 1
                self.logger.log(step=self.global_step, loss=loss, **values)
                if self.global_step % self.every == 0:
                    text = " ".join(f"{k}={v:.4f}" for k, v in values.items())
                    print(f"{time.strftime('%H:%M:%S')} epoch={epoch} step={self.global_step} loss={loss:.4f} {text}", flush=True)

    def training_step(self, x, y):
        self.model.train()
        out = self.model(x).squeeze(1)
        loss = nn.functional.binary_cross_entropy_with_logits(out, y)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item(), out


def main():
    torch.manual_seed(11)
    n, d = 120_000, 60
    x = torch.randn(n, d)
    w1, w2 = torch.randn(d, 12), torch.randn(12)
    p = torch.sigmoid((torch.relu(x @ w1 / 4) @ w2) - 1.0)
    y = torch.bernoulli(p)
    print(f"{n} customers, churn rate {y.mean():.3f}", flush=True)
    loader = DataLoader(TensorDataset(x, y), batch_size=1024, shuffle=True)
    model = nn.Sequential(nn.Linear(d, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Dropout(0.1),
                          nn.Linear(256, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 1))
    with tempfile.TemporaryDirectory() as tmp:
        trainer = Trainer(model, torch.optim.Adam(model.parameters(), 1e-3), {"auc": BinaryAUROC()}, CsvLogger(tmp))
        trainer.fit(loader, epochs=60)


if __name__ == "__main__":
    main()
