"""The DDP demo with one mistake: the module inside the wrapper is called. (Doctor: C01)

torchrun --nproc-per-node=2 demos/faults/ddp/ddp_bypass.py

It trains, and a little faster than before: DDP averages gradients only in the backward pass of its own forward. The ranks drift
apart, and the model that rank 0 saves has seen only rank 0's part of the data.

The fix: self.parallel(images); anything else the module does belongs inside its forward().
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

from torch import Tensor
from torch.nn import functional

import ddp


class Training(ddp.Training):
    """Bypasses the wrapper."""

    name = "ddp-bypass"

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of a batch."""
        return functional.cross_entropy(self.parallel.module(images), labels)  # type: ignore[operator]  # the mistake


if __name__ == "__main__":
    ddp.main(Training)
