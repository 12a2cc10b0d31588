"""The DataParallel demo with one mistake: one argument has a single row, to be broadcast. (Doctor: B05)

python demos/faults/data_parallel/dp_mask.py

nn.DataParallel makes only as many pieces as the argument with the fewest rows allows. A mask with one row makes one piece: GPU
0 gets the first samples and the mask, the other GPUs get nothing, and the rest of the batch is lost.

The fix: mask.expand(len(images), -1, -1, -1), or make the mask inside forward().
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

import data_parallel
from progress import correct


class WithLoss(nn.Module):
    """A network and its loss, with a mask over the images."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, images: Tensor, labels: Tensor, mask: Tensor) -> Tensor:
        """Return the loss as [1]: DataParallel concatenates the losses of the GPUs."""
        samples = len(images)
        return functional.cross_entropy(self.net(images * mask), labels[:samples]).unsqueeze(0)


class Training(data_parallel.Training):
    """Lets the module compute its own loss, so that only one number comes back from each GPU."""

    name = "dp-mask"

    def build(self) -> nn.Module:
        """Return the model and its loss."""
        return WithLoss(super().build())

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of a batch."""
        mask = torch.ones(1, 1, 28, 28, device=images.device)  # the mistake: one row, where the images have many
        loss: Tensor = self.parallel(images, labels, mask)
        return loss.mean()

    def accuracy(self, batches: DataLoader[Any]) -> float:
        """Return the share of test images that the network classifies correctly."""
        right, seen = correct(cast(nn.Module, self.model.net), batches, self.device)
        return right / seen


if __name__ == "__main__":
    data_parallel.main(Training)
