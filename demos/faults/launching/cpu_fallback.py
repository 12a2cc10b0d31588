"""The DDP demo with one mistake: it trains on the CPU, because a GPU number does not exist. (Doctor: A12)

torchrun --nproc-per-node=2 demos/faults/launching/cpu_fallback.py

try_gpu(i), found in many tutorials, returns the CPU if there is no GPU i. It trains, slowly, and all GPUs stay idle.

The fix: request a GPU that exists, and fail if it does not: assert torch.cuda.is_available().
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

import torch

import ddp
import devices


def try_gpu(index: int) -> devices.Place:
    """Return GPU ``index`` if there is one, else the CPU."""
    return devices.take(index) if index < devices.count() else devices.Place(torch.device("cpu"))


class Training(ddp.Training):
    """Takes a device that does not exist."""

    name = "cpu-fallback"

    def take_device(self) -> devices.Place:
        """Return the device of this rank."""
        return try_gpu(self.local_rank + devices.count())  # the mistake: GPUs are counted from 0


if __name__ == "__main__":
    ddp.main(Training)
