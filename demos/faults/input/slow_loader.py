"""The DDP demo with one mistake: the training process itself loads expensive data. (Doctor: D01)

torchrun --nproc-per-node=2 demos/faults/input/slow_loader.py

num_workers=0: the GPU waits while images are prepared, and no images are prepared during a step.

The fix: DataLoader(..., num_workers=4, persistent_workers=True, worker_init_fn=devices.unpin).
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
    """Loads expensive data."""

    name = "slow-loader"

    def load(self, train: Dataset[Any]) -> DataLoader[Any]:
        """Return the loader of training batches."""
        healthy = super().load(train)
        # The mistake: num_workers stays 0.
        return DataLoader(costly.Costly(train), self.batch_size, sampler=healthy.sampler, drop_last=True)


if __name__ == "__main__":
    ddp.main(Training)
