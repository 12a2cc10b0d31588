"""The DDP demo with one mistake: a layer that no forward uses. (Doctor: C09)

torchrun --nproc-per-node=2 demos/faults/ddp/unused_parameters.py

DDP waits in backward() for the gradient of every parameter. Those of an unused layer never arrive, and the next forward
ends with "Expected to have finished reduction in the prior iteration".

The fix: remove the layer, or find_unused_parameters=True.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

from torch import Tensor, nn

import ddp


class WithExtra(nn.Module):
    """A network with an abandoned second head."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.auxiliary = nn.Linear(84, 10)  # the mistake: nothing calls it

    def forward(self, x: Tensor) -> Tensor:
        """Return the network's output."""
        out: Tensor = self.net(x)
        return out


class Training(ddp.Training):
    """Has an unused layer."""

    name = "unused-parameters"

    def build(self) -> nn.Module:
        """Return the model."""
        return WithExtra(super().build())


if __name__ == "__main__":
    ddp.main(Training)
