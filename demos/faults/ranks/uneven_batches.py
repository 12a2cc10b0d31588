"""The DDP demo with one mistake: batches of very different sizes. (Doctor: F03)

torchrun --nproc-per-node=2 demos/faults/ranks/uneven_batches.py

Each rank's batch has a random number of rows, from a quarter to all, as with sentences that are not grouped by length: in each
step the ranks with few rows wait for the one with the most, which is a different rank each time.

The fix: batches of equal work: group_by_length, packing, or a budget of tokens.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

import torch
from torch import Tensor

import ddp


class Training(ddp.Training):
    """Has batches of random size."""

    name = "uneven-batches"

    def train_step(self, images: Tensor, labels: Tensor) -> Tensor:
        """Take a step on a part of the batch."""
        least = max(1, len(labels) // 4)
        rows = int(torch.randint(least, len(labels) + 1, (1,), generator=self.chance))
        return super().train_step(images[:rows], labels[:rows])  # the mistake

    def begin_epoch(self, epoch: int) -> None:
        """Seed the random sizes differently on each rank."""
        super().begin_epoch(epoch)
        self.chance = torch.Generator().manual_seed(1000 * self.rank + epoch)


if __name__ == "__main__":
    ddp.main(Training)
