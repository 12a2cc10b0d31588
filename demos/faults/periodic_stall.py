"""The DDP demo with one mistake: the whole test set after every 20 steps. (Doctor: E07)

torchrun --nproc-per-node=2 demos/faults/periodic_stall.py

Every 20 steps, training stops for as long as many steps take: the GPUs do nothing but test.

The fix: test after each epoch, on a part of the images, or in a separate process.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the healthy demo is one folder up

from torch import Tensor

import ddp


class Training(ddp.Training):
    """Tests too often."""

    name = "periodic-stall"

    def train_step(self, images: Tensor, labels: Tensor) -> Tensor:
        """Take a step."""
        loss = super().train_step(images, labels)
        if self.micro_step % 20 == 0:  # the mistake
            self.test(epoch=0)
        return loss


if __name__ == "__main__":
    ddp.main(Training)
