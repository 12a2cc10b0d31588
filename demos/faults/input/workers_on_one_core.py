"""The DDP demo with one mistake: all loader processes share one core. (Doctor: D03)

torchrun --nproc-per-node=2 demos/faults/input/workers_on_one_core.py

A library or the scheduler pinned the process before the workers started, and they inherit the pinning: four workers on one core
are no faster than one worker.

The fix: worker_init_fn=devices.unpin, that is os.sched_setaffinity(0, range(os.cpu_count())); --cpus-per-task under SLURM.
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


def pin_to_first_core(_: int) -> None:
    """Pin the process, as some libraries do when they are imported."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


class Training(ddp.Training):
    """Has workers that compete for one core."""

    name = "workers-on-one-core"

    def load(self, train: Dataset[Any]) -> DataLoader[Any]:
        """Return the loader of training batches."""
        healthy = super().load(train)
        return DataLoader(
            costly.Costly(train),
            self.batch_size,
            sampler=healthy.sampler,
            drop_last=True,
            num_workers=4,
            persistent_workers=True,
            worker_init_fn=pin_to_first_core,  # the mistake
        )


if __name__ == "__main__":
    ddp.main(Training)
