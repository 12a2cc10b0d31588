"""The DataParallel demo with one mistake: device_ids names one GPU. (Doctor: B12)

python demos/faults/data_parallel/dp_single_id.py

With a single device, nn.DataParallel passes everything to the module unchanged: the other GPUs stay idle.

The fix: omit device_ids: all visible GPUs are then used.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

from torch import nn

import data_parallel


class Training(data_parallel.Training):
    """Wraps for one device."""

    name = "dp-single-id"

    def wrap(self, model: nn.Module, device_ids: Sequence[int] | None = None, dim: int = 0) -> nn.Module:
        """Return the wrapper."""
        return super().wrap(model, [0], dim)  # the mistake: left over from a test on one GPU


if __name__ == "__main__":
    data_parallel.main(Training)
