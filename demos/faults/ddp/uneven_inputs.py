"""The DDP demo with one mistake: the ranks have different numbers of batches. (Doctor: C07)

torchrun --nproc-per-node=2 demos/faults/ddp/uneven_inputs.py

The data is split by hand, and rank 0 gets more. When the others are done, rank 0 waits in backward() for gradients that no rank
sends: a hang, or an error about lost connections, far from the cause.

The fix: DistributedSampler (it gives all ranks the same number), drop_last, or torch.distributed.algorithms.Join.
"""

from __future__ import annotations

import sys
from collections.abc import Sized
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

from torch.utils.data import DataLoader, Dataset, Subset

import ddp


class Training(ddp.Training):
    """Splits the data unevenly."""

    name = "uneven-inputs"

    def load(self, train: Dataset[Any]) -> DataLoader[Any]:
        """Return the loader of training batches."""
        samples = len(cast(Sized, train)) // self.world_size
        if self.rank > 0:
            samples = samples * 3 // 4  # the mistake: as if bad samples had been left out
        part = Subset(train, range(self.rank * samples, (self.rank + 1) * samples))
        return DataLoader(part, self.batch_size, shuffle=True, drop_last=True)

    def begin_epoch(self, epoch: int) -> None:
        """Do nothing: there is no sampler that needs the epoch."""


if __name__ == "__main__":
    ddp.main(Training, batch_size=16, train_samples=60_000)
