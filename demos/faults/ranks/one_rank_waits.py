"""The DDP demo with one mistake: one rank waits for something that never comes. (Doctor: G01)

torchrun --nproc-per-node=2 demos/faults/ranks/one_rank_waits.py

Rank 1 stops after 200 steps, here for input that nobody types. The others wait in backward() for its gradients: no error, no
progress, and on a real GPU 100% utilization at low power.

The fix: see where each rank hangs (py-spy dump --pid PID), and set a shorter timeout in init_process_group.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

from torch import Tensor

import ddp


class Training(ddp.Training):
    """Stops on one rank."""

    name = "one-rank-waits"

    def train_step(self, images: Tensor, labels: Tensor) -> Tensor:
        """Take a step."""
        if self.rank == 1 and self.micro_step == (self.args.steps or 400) // 2:
            wait_for_input()  # the mistake
        return super().train_step(images, labels)


def wait_for_input() -> str:
    """Wait for a line from a pipe that nobody writes to, like input() or a breakpoint() left in the code."""
    reader, _writer = os.pipe()
    with open(reader) as pipe:
        return pipe.readline()


if __name__ == "__main__":
    ddp.main(Training)
