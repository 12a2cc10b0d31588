"""The DataParallel demo with one mistake: the batch is not the first dimension. (Doctor: B06)

python demos/faults/data_parallel/dp_time_first.py

A recurrent network reads an image row by row: [time, batch, 28]. nn.DataParallel splits dimension 0, so every GPU gets all
samples but only some of their rows: the dependency of each row on the previous one is lost at the split.

The fix: DataParallel(model, dim=1), or batch_first=True.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

import data_parallel


class NextRow(nn.Module):
    """Predicts each row of an image from the rows above it: [time, batch, 28] to [time, batch, 28]."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = nn.GRU(28, 32)
        self.guess = nn.Linear(32, 28)

    def forward(self, rows: Tensor) -> Tensor:
        """Return the predictions."""
        out: Tensor = self.guess(self.memory(rows)[0])
        return out


class Training(data_parallel.Training):
    """Trains a network whose batch is dimension 1."""

    name = "dp-time-first"

    def build(self) -> nn.Module:
        """Return the model."""
        return NextRow()

    def wrap(self, model: nn.Module, device_ids: Sequence[int] | None = None, dim: int = 0) -> nn.Module:
        """Return the wrapper."""
        return super().wrap(model, device_ids, dim)  # the mistake: dim stays 0

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the mean squared error of the predictions."""
        rows = images.squeeze(1).transpose(0, 1)
        return functional.mse_loss(self.parallel(rows[:-1]), rows[1:])

    def accuracy(self, batches: DataLoader[Any]) -> float:
        """Return the share of the test images' variance that the predictions explain."""
        with torch.no_grad():
            rows = torch.cat([images for images, _ in batches]).squeeze(1).transpose(0, 1).to(self.device)
            return 1 - float((self.model(rows[:-1]) - rows[1:]).var() / rows[1:].var())


if __name__ == "__main__":
    data_parallel.main(Training)
