"""The DataParallel demo with one mistake: the batch is passed in an object that is not a tensor. (Doctor: B04)

python demos/faults/data_parallel/dp_object.py

nn.DataParallel splits tensors, and tensors in tuples, lists and dicts. Anything else goes to every GPU as a whole: each GPU
processes the whole batch, which takes as long as on one GPU.

The fix: pass tensors: parallel(batch.images, batch.labels).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # the healthy demo is two folders up

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.data import DataLoader

import data_parallel
from progress import correct


@dataclass
class Batch:
    """What a custom data set may return."""

    images: Tensor
    labels: Tensor


class WithLoss(nn.Module):
    """A network and its loss."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net
        self.register_buffer("here", torch.empty(0))  # tells a replica which GPU it is on

    def forward(self, batch: Batch) -> Tensor:
        """Return the loss as [1]: DataParallel concatenates the losses of the GPUs."""
        device = cast(Tensor, self.here).device
        return functional.cross_entropy(self.net(batch.images.to(device)), batch.labels.to(device)).unsqueeze(0)


class Training(data_parallel.Training):
    """Lets the module compute its own loss, so that only one number comes back from each GPU."""

    name = "dp-object"

    def build(self) -> nn.Module:
        """Return the model and its loss."""
        return WithLoss(super().build())

    def loss(self, images: Tensor, labels: Tensor) -> Tensor:
        """Return the loss of a batch."""
        loss: Tensor = self.parallel(Batch(images, labels))  # the mistake
        return loss.mean()

    def accuracy(self, batches: DataLoader[Any]) -> float:
        """Return the share of test images that the network classifies correctly."""
        right, seen = correct(cast(nn.Module, self.model.net), batches, self.device)
        return right / seen


if __name__ == "__main__":
    data_parallel.main(Training)
