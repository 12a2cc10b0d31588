"""The DDP demo with one mistake: every rank tests on the whole test set after every 5 steps. (Doctor: E07)

torchrun --nproc-per-node=2 demos/faults/input/periodic_stall.py

Every 5 steps, training stops for as long as many steps take: the GPUs test for longer than they train.

The fix: test after each epoch, each rank on its part of the images, or in a separate process.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

from torch import Tensor
from torch.utils.data import DataLoader

import ddp
import options
from progress import correct


class Training(ddp.Training):
    """Tests too often."""

    name = "periodic-stall"

    def train_step(self, images: Tensor, labels: Tensor) -> Tensor:
        """Take a step."""
        if self.micro_step == 0:
            _, test = options.data(self.args)
            self.all_images = DataLoader(test, batch_size=500)
        loss = super().train_step(images, labels)
        if self.micro_step % 5 == 0:  # the mistake
            right, seen = correct(self.model, self.all_images, self.place.device)
            self.meter.tested(0, right / seen, shown=self.rank == 0)
        return loss


if __name__ == "__main__":
    ddp.main(Training)
