"""The DDP demo with one mistake: set_epoch is not called. (Doctor: C06)

torchrun --nproc-per-node=2 demos/faults/ddp/no_set_epoch.py

A DistributedSampler shuffles by its epoch number, so that all ranks agree. Without set_epoch every epoch repeats the order of
the first: the same batches, again and again.

The fix: sampler.set_epoch(epoch) before each epoch.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

import ddp


class Training(ddp.Training):
    """Forgets to set the epoch."""

    name = "no-set-epoch"

    def begin_epoch(self, epoch: int) -> None:
        """Do nothing, which is the mistake."""


if __name__ == "__main__":
    ddp.main(Training, train_samples=2000)
