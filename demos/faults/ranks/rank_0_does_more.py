"""The DDP demo with one mistake: rank 0 draws a picture after every step. (Doctor: F05)

torchrun --nproc-per-node=2 demos/faults/ranks/rank_0_does_more.py

All other ranks wait while rank 0 does anything besides training: they cannot finish the next step without it.

The fix: every 100 steps instead of every step, or in a separate thread or process.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

from torch import Tensor

import ddp


class Training(ddp.Training):
    """Reports too much."""

    name = "rank-0-does-more"

    def train_step(self, images: Tensor, labels: Tensor) -> Tensor:
        """Take a step, and let rank 0 report."""
        loss = super().train_step(images, labels)
        if self.rank == 0:
            picture(images)  # the mistake
        return loss


def picture(images: Tensor) -> int:
    """Draw the batch as text, as a custom dashboard might; return its length."""
    shades = " .:-=+*#%@"
    rows = images[:16].flatten(0, 2).cpu().tolist()
    return sum(len("".join(shades[min(9, max(0, int(4 * value + 2)))] for value in row)) for row in rows)


if __name__ == "__main__":
    ddp.main(Training)
