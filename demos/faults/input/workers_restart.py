"""The DDP demo with one mistake: every epoch starts new loader processes. (Doctor: D06)

torchrun --nproc-per-node=2 demos/faults/input/workers_restart.py

Epochs are short, and each starts new worker processes that first have to initialize: the GPU waits at the start of every epoch.

The fix: persistent_workers=True.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

from torch.utils.data import DataLoader, Dataset

import ddp
import devices
from progress import say


def get_ready(number: int) -> None:
    """Open what a worker needs: files, an index, a decoder."""
    devices.unpin()
    time.sleep(0.5)
    say(f"loader process {number} is ready")


class Training(ddp.Training):
    """Restarts the workers for every epoch."""

    name = "workers-restart"

    def load(self, train: Dataset[Any]) -> DataLoader[Any]:
        """Return the loader of training batches."""
        healthy = super().load(train)
        # The mistake: persistent_workers stays False.
        return DataLoader(
            train, self.batch_size, sampler=healthy.sampler, drop_last=True, num_workers=2, worker_init_fn=get_ready
        )


if __name__ == "__main__":
    ddp.main(Training, train_samples=2000)
