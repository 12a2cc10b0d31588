"""The DDP demo with one mistake: no DistributedSampler. (Doctor: C05)

torchrun --nproc-per-node=2 demos/faults/ddp/no_sampler.py

Every rank goes through all the data in the same order: N GPUs compute the same gradients N times, and an epoch takes as long as
on one GPU.

The fix: DataLoader(train, sampler=DistributedSampler(train))
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

from torch.utils.data import DataLoader, Dataset

import ddp


class Training(ddp.Training):
    """Loads as a single process would."""

    name = "no-sampler"

    def load(self, train: Dataset[Any]) -> DataLoader[Any]:
        """Return the loader of training batches."""
        return DataLoader(train, self.batch_size, shuffle=True, drop_last=True)  # the mistake

    def begin_epoch(self, epoch: int) -> None:
        """Do nothing: there is no sampler that needs the epoch."""


if __name__ == "__main__":
    ddp.main(Training)
