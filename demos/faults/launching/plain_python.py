"""The DDP demo with one mistake: it is started with python instead of torchrun. (Doctor: A01)

python demos/faults/launching/plain_python.py

It trains with one process on one GPU: without a launcher there is no RANK in the environment, and the script skips everything
that it does for several ranks.

The fix: torchrun --nproc-per-node=gpu demos/ddp.py
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

from torch import nn

import ddp


class Training(ddp.Training):
    """Works with one process as well as with many, so nothing shows that the launcher is missing."""

    name = "plain-python"

    def connect(self) -> None:
        """Join the others, if a launcher has started any."""
        if "RANK" in os.environ:
            super().connect()

    def wrap(self, model: nn.Module) -> nn.Module:
        """Wrap, if there are others."""
        return super().wrap(model) if self.world_size > 1 else model


if __name__ == "__main__":
    ddp.main(Training)  # the mistake is in the command line: python instead of torchrun
