"""The DDP demo with one mistake: all ranks write the same file. (Doctor: C14)

torchrun --nproc-per-node=2 demos/faults/ddp/ranks_write_one_file.py

Each rank truncates the file when it opens it, and then they overwrite each other's lines: the result is corrupt, and differs
from run to run.

The fix: if rank == 0: around everything that writes, or one file per rank.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

from torch import Tensor

import ddp


class Training(ddp.Training):
    """Writes where another rank writes."""

    name = "ranks-write-one-file"

    def begin_epoch(self, epoch: int) -> None:
        """Open the file of predictions in the first epoch."""
        super().begin_epoch(epoch)
        if epoch == 0:
            folder = self.args.save.parent if self.args.save else Path(tempfile.gettempdir())
            self.file = (folder / f"predictions-{os.getuid()}.csv").open("w")  # the mistake: every rank opens it

    def train_step(self, images: Tensor, labels: Tensor) -> Tensor:
        """Take a step, and write the rank, the step and each label."""
        loss = super().train_step(images, labels)
        self.file.write("".join(f"{self.rank},{self.micro_step},{label}\n" for label in labels.tolist()))
        self.file.flush()
        return loss


if __name__ == "__main__":
    ddp.main(Training)
