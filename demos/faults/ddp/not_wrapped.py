"""The DDP demo with one mistake: the model is not wrapped in DDP. (Doctor: C03)

torchrun --nproc-per-node=2 demos/faults/ddp/not_wrapped.py

The process group exists and the sampler splits the data, but nothing averages the gradients: there are as many models as ranks,
each trained on its own part of the data.

The fix: DistributedDataParallel(model, device_ids=[local_rank])
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

from torch import nn

import ddp


class Training(ddp.Training):
    """Does not wrap."""

    name = "not-wrapped"

    def wrap(self, model: nn.Module) -> nn.Module:
        """Wrap the model."""
        return model  # the mistake


if __name__ == "__main__":
    ddp.main(Training)
