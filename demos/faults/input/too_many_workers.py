"""The DDP demo with one mistake: more loader processes than cores. (Doctor: D02)

torchrun --nproc-per-node=2 demos/faults/input/too_many_workers.py

Every rank starts four workers per core: they compete with each other and with the ranks for the cores, and torch warns about
it.

The fix: num_workers = cores // ranks.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

from torch.utils.data import DataLoader, Dataset

import costly
import ddp
import devices


class Training(ddp.Training):
    """Starts too many processes."""

    name = "too-many-workers"

    def load(self, train: Dataset[Any]) -> DataLoader[Any]:
        """Return the loader of training batches."""
        healthy, workers = super().load(train), 4 * (os.cpu_count() or 1)
        return DataLoader(
            costly.Costly(train),
            self.batch_size,
            sampler=healthy.sampler,
            drop_last=True,
            num_workers=workers,  # the mistake
            persistent_workers=True,
            worker_init_fn=devices.unpin,
        )


if __name__ == "__main__":
    ddp.main(Training)
