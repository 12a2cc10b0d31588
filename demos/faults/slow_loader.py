"""The DDP demo with one mistake: costly data is loaded by the training process itself. (Doctor: D01)

torchrun --nproc-per-node=2 demos/faults/slow_loader.py

num_workers=0: each image is prepared while the GPU waits, and each step while the images wait.

The fix: DataLoader(..., num_workers=4, persistent_workers=True, worker_init_fn=devices.unpin).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the healthy demo lies one folder up

from torch.utils.data import DataLoader, Dataset

import costly
import ddp


class Training(ddp.Training):
    """Loads costly data."""

    name = "slow-loader"

    def load(self, train: Dataset[Any]) -> DataLoader[Any]:
        """Return the loader of training batches."""
        healthy = super().load(train)
        # The mistake: num_workers stays 0.
        return DataLoader(costly.Costly(train), self.batch_size, sampler=healthy.sampler, drop_last=True)


if __name__ == "__main__":
    ddp.main(Training)
