"""The DDP demo with one mistake: one rank loads its data slowly. (Doctor: F01)

torchrun --nproc-per-node=2 demos/faults/ranks/slow_data_on_one_rank.py

Rank 1 reads from a slow disk. In every step all others wait for its gradients: the whole job is only as fast as rank 1.

The fix: the same storage and the same number of loader processes for every rank.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

from torch.utils.data import DataLoader, Dataset

import costly
import ddp


class Training(ddp.Training):
    """Has one slow loader."""

    name = "slow-data-on-one-rank"

    def load(self, train: Dataset[Any]) -> DataLoader[Any]:
        """Return the loader of training batches."""
        healthy = super().load(train)
        if self.rank != 1:
            return healthy
        slow = costly.Slow(train, seconds=0.001)  # the mistake
        return DataLoader(slow, self.batch_size, sampler=healthy.sampler, drop_last=True)


if __name__ == "__main__":
    ddp.main(Training)
