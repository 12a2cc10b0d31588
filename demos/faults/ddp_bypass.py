"""The DDP demo with one mistake: the module inside the wrapper is called. (Doctor: C01)

torchrun --nproc-per-node=2 demos/faults/ddp_bypass.py

It trains, a little faster than before: DDP averages gradients only in the backward of its own forward. The ranks drift
apart, and what rank 0 saves has seen its own part of the data alone.

The fix: self.parallel(images); what else the module can do belongs behind its forward().
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the healthy demo lies one folder up

from torch import Tensor
from torch.nn import functional

import ddp


class Training(ddp.Training):
    """Calls past the wrapper."""

    name = "ddp-bypass"

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of a batch."""
        return functional.cross_entropy(self.parallel.module(images), labels)  # type: ignore[operator]  # the mistake


if __name__ == "__main__":
    ddp.main(Training)
