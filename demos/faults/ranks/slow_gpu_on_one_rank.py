"""The DDP demo with one mistake: one rank's GPU is slower than the others. (Doctor: F02)

torchrun --nproc-per-node=2 demos/faults/ranks/slow_gpu_on_one_rank.py

Rank 1 repeats every forward, as if its GPU were hot, older or shared. All others wait for it in backward().

The fix: equal and free GPUs for all ranks; nvidia-smi -q -d PERFORMANCE shows why one is slow.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

import torch
from torch import Tensor, nn
from torch.nn import functional

import ddp


class Training(ddp.Training):
    """Has one slow device."""

    name = "slow-gpu-on-one-rank"

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of a batch."""
        return functional.cross_entropy(self.parallel(images), labels)

    def build(self) -> nn.Module:
        """Return the model."""
        model = super().build()
        return Slow(model) if self.rank == 1 else Same(model)  # the mistake


class Same(nn.Module):
    """A network that runs its forward once."""

    times = 1

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        """Return the network's output."""
        with torch.no_grad():
            for _ in range(self.times - 1):
                self.net(x)
        out: Tensor = self.net(x)
        return out


class Slow(Same):
    """The same network, on a GPU whose forward takes three to four times as long."""

    times = 4


if __name__ == "__main__":
    ddp.main(Training)
