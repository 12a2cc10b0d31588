"""The DDP demo with one mistake: DDP wraps a model that is still on the CPU. (Doctor: C15)

torchrun --nproc-per-node=2 demos/faults/ddp/wrapped_before_move.py

device_ids names a GPU, but the parameters are on the CPU: DistributedDataParallel raises a ValueError.

The fix: model.to(device) first, then DistributedDataParallel(model, device_ids=[local_rank]).
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ddp


class Training(ddp.Training):
    """Wraps too early."""

    name = "wrapped-before-move"

    def wrap(self, model: nn.Module) -> nn.Module:
        """Wrap the model."""
        return DistributedDataParallel(model.cpu(), device_ids=[self.local_rank])  # the mistake


if __name__ == "__main__":
    ddp.main(Training)
