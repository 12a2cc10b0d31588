"""The DDP demo with one mistake: one rank is killed. (Doctor: G04)

torchrun --nproc-per-node=2 demos/faults/ranks/dead_rank.py

Rank 1 is killed from outside, as the operating system does when memory runs out. The others report "connection closed by peer":
that is a consequence, not the cause. The cause is the rank that torchrun names first.

The fix: look at the first rank that failed; exit code -9 is SIGKILL: dmesg shows whether memory ran out.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

from torch import Tensor

import ddp


class Training(ddp.Training):
    """Loses a rank."""

    name = "dead-rank"

    def train_step(self, images: Tensor, labels: Tensor) -> Tensor:
        """Take a step."""
        if self.rank == 1 and self.micro_step == (self.args.steps or 400) // 2:
            os.kill(os.getpid(), signal.SIGKILL)  # the mistake: what the kernel does when memory runs out
        return super().train_step(images, labels)


if __name__ == "__main__":
    ddp.main(Training)
