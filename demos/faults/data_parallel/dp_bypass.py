"""The DataParallel demo with one mistake: the module inside the wrapper is called. (Doctor: B03)

python demos/faults/data_parallel/dp_bypass.py

Only a call of the wrapper splits the batch. parallel.module(...), or a method of it, runs only on GPU 0.

The fix: self.parallel(images); anything else the module does belongs inside its forward().
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

from torch import Tensor
from torch.nn import functional

import data_parallel


class Training(data_parallel.Training):
    """Bypasses the wrapper."""

    name = "dp-bypass"

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of a batch."""
        return functional.cross_entropy(self.parallel.module(images), labels)  # type: ignore[operator]  # the mistake


if __name__ == "__main__":
    data_parallel.main(Training)
