"""Data that takes time to prepare, for the demos of a slow input: costly for the processor, or slow like a disk."""

from __future__ import annotations

import time
from collections.abc import Sized
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.data import Dataset


class Costly(Dataset[tuple[Tensor, int]]):
    """Blurs and turns each image, again and again: about 1 ms of a core, as decoding a photograph takes."""

    def __init__(self, images: Dataset[Any], rounds: int = 20) -> None:
        self.images = images
        self.rounds = rounds

    def __len__(self) -> int:
        return len(cast(Sized, self.images))

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """Return the image, after much ado, and its label."""
        image, label = self.images[index]
        blurred = image.unsqueeze(0)
        for _ in range(self.rounds):
            blurred = torch.nn.functional.avg_pool2d(blurred.rot90(1, (2, 3)), 3, 1, 1)
        return image + 0.01 * blurred.squeeze(0), label


class Slow(Dataset[tuple[Tensor, int]]):
    """Waits before it gives an image, as for a disk; ``seconds`` for each."""

    def __init__(self, images: Dataset[Any], seconds: float) -> None:
        self.images = images
        self.seconds = seconds

    def __len__(self) -> int:
        return len(cast(Sized, self.images))

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """Return the image, later, and its label."""
        time.sleep(self.seconds)
        found: tuple[Tensor, int] = self.images[index]
        return found
