"""Data that takes time to prepare, for the demos of a slow input: expensive to compute, or slow like a disk."""

from __future__ import annotations

import time
from collections.abc import Sized
from typing import Any, cast

import torch
from torch import Tensor
from torch.utils.data import Dataset


class Costly(Dataset[tuple[Tensor, int]]):
    """Blurs and rotates each image repeatedly: about 1 ms of a core, the time it takes to decode a photograph."""

    def __init__(self, images: Dataset[Any], rounds: int = 20) -> None:
        self.images = images
        self.rounds = rounds

    def __len__(self) -> int:
        return len(cast(Sized, self.images))

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """Return the image, after some pointless work, and its label."""
        image, label = self.images[index]
        blurred = image.unsqueeze(0)
        for _ in range(self.rounds):
            blurred = torch.nn.functional.avg_pool2d(blurred.rot90(1, (2, 3)), 3, 1, 1)
        return image + 0.01 * blurred.squeeze(0), label


class Slow(Dataset[tuple[Tensor, int]]):
    """Waits ``seconds`` before it returns each image, as if for a disk."""

    def __init__(self, images: Dataset[Any], seconds: float) -> None:
        self.images = images
        self.seconds = seconds

    def __len__(self) -> int:
        return len(cast(Sized, self.images))

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """Return the image, after the wait, and its label."""
        time.sleep(self.seconds)
        found: tuple[Tensor, int] = self.images[index]
        return found
