"""Digits drawn by the program: a synthetic data set that looks like MNIST and needs no download.

Each digit is a few lines in a unit square. A sample rotates, scales, shifts and distorts them, draws them with a pen of random
width, and adds noise. The same seed gives the same images.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy
import torch
from torch import Tensor
from torch.utils.data import Dataset

SIZE = 28
_CHUNK = 250  # images drawn at a time: intermediate results stay in the processor's cache

Point = tuple[float, float]


def _arc(x: float, y: float, rx: float, ry: float, start: float, end: float, points: int = 7) -> list[Point]:
    """Return points on an ellipse from angle ``start`` to ``end`` in degrees; 0 is right, 90 is down."""
    angles = [math.radians(start + (end - start) * i / (points - 1)) for i in range(points)]
    return [(x + rx * math.cos(angle), y + ry * math.sin(angle)) for angle in angles]


# The strokes of each digit: x to the right and y down, both in -1..1.
_STROKES: dict[int, list[list[Point]]] = {
    0: [_arc(0, 0, 0.55, 0.9, 0, 360, 12)],
    1: [[(-0.35, -0.5), (0.1, -0.9), (0.1, 0.9)]],
    2: [[*_arc(0, -0.4, 0.5, 0.5, 190, 380), (-0.5, 0.9), (0.6, 0.9)]],
    3: [_arc(-0.05, -0.45, 0.5, 0.45, 200, 440), _arc(-0.05, 0.45, 0.55, 0.45, 280, 520)],
    4: [[(0.25, 0.9), (0.25, -0.9), (-0.6, 0.35), (0.6, 0.35)]],
    5: [[(0.5, -0.9), (-0.4, -0.9), (-0.45, -0.1), *_arc(-0.05, 0.35, 0.55, 0.55, 230, 500)]],
    6: [[(0.35, -0.9), (-0.2, -0.4), *_arc(0, 0.4, 0.5, 0.5, 190, 550, 9)]],
    7: [[(-0.55, -0.9), (0.55, -0.9), (-0.1, 0.9)]],
    8: [_arc(0, -0.45, 0.42, 0.45, 90, 450, 9), _arc(0, 0.45, 0.52, 0.45, -90, 270, 9)],
    9: [[*_arc(0, -0.4, 0.5, 0.5, 20, 380, 9), (0.3, 0.9)]],
}


def _segments(digit: int) -> Tensor:
    """Return the digit's line segments as [segments, 2 ends, (x, y)]."""
    pieces = [list(pair) for stroke in _STROKES[digit] for pair in pairwise(stroke)]
    return torch.tensor(pieces)


def _draw(digit: int, count: int, generator: torch.Generator, easy: bool) -> Tensor:
    """Return ``count`` drawings of one digit as bytes [count, SIZE, SIZE]."""
    wild = 0.5 if easy else 1.0

    def uniform(low: float, high: float, *shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator) * (high - low) + low

    angle, slant = uniform(-0.4 * wild, 0.4 * wild, count), uniform(-0.4 * wild, 0.4 * wild, count)
    width, height = uniform(4.5, 9.5, count), uniform(6.0, 10.5, count)
    turn = torch.stack([angle.cos() * width, (slant - angle.sin()) * height, angle.sin() * width, angle.cos() * height], -1)
    shift = uniform(-3.5 * wild, 3.5 * wild, count, 1, 1, 2) + (SIZE - 1) / 2
    ends = torch.einsum("nij,skj->nski", turn.view(count, 2, 2), _segments(digit)) + shift
    ends += 0.6 * wild * torch.randn(ends.shape, generator=generator)  # an unsteady hand
    if not easy:
        stray = uniform(0, SIZE, count, 1, 2, 2)  # a line that belongs to no digit: without it, LeNet learns all in seconds
        ends = torch.cat([ends, stray], dim=1)

    # Distance of each pixel from each line: project onto the line, clamp to its ends, measure.
    axis = torch.arange(SIZE, dtype=torch.float32)
    nearest = torch.full((count, SIZE, SIZE), torch.inf)
    for piece in range(ends.shape[1]):
        (x0, y0), (dx, dy) = ends[:, piece, 0].T, (ends[:, piece, 1] - ends[:, piece, 0]).T
        x, y = axis - x0[:, None], axis - y0[:, None]
        length = (dx * dx + dy * dy).clamp_min(1e-6)
        along = ((x * (dx / length)[:, None])[:, None, :] + (y * (dy / length)[:, None])[:, :, None]).clamp_(0, 1)
        across_x = x[:, None, :] - along * dx[:, None, None]
        across_y = y[:, :, None] - along * dy[:, None, None]
        nearest = torch.minimum(nearest, across_x.square_().add_(across_y.square_()))
    pen = uniform(0.6, 1.6, count, 1, 1)
    ink = (pen + 0.5 - nearest.sqrt_()).clamp_(0, 1) * uniform(0.5, 1.0, count, 1, 1)
    ink += 0.2 * torch.randn(ink.shape, generator=generator)
    return ink.clamp_(0, 1).mul_(255).to(torch.uint8)


class Images(Dataset[tuple[Tensor, int]]):
    """Gray images in memory: bytes [N, 28, 28] and labels [N]; ``name`` describes the data set."""

    def __init__(self, name: str, images: Tensor, labels: Tensor) -> None:
        self.name = name
        self.images = images
        self._pixels = images.numpy()
        self.labels = labels.tolist()

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        """Return the image as floats [1, 28, 28] around 0, and its label."""
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: list[int]) -> list[tuple[Tensor, int]]:
        """Return the samples of a batch for a DataLoader: all at once, or a fast GPU would wait for them.

        NumPy does this on the calling thread; torch would wake its threads for very little work.
        """
        pixels = (self._pixels[indices].astype(numpy.float32) - 64) / 96
        return list(
            zip(torch.from_numpy(pixels).unsqueeze_(1).unbind(), [self.labels[index] for index in indices], strict=True)
        )


def drawn_digits(count: int, seed: int, easy: bool = False) -> Images:
    """Draw ``count`` images of the ten digits, in random order: about ten thousand per second on one core.

    ``easy`` digits are half as distorted and have no stray line: LeNet recognizes nine of ten within 250 steps.
    """
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(0, 10, (count,), generator=generator)
    images = torch.empty(count, SIZE, SIZE, dtype=torch.uint8)
    for digit in range(10):
        for where in (labels == digit).nonzero().squeeze(1).split(_CHUNK):
            images[where] = _draw(digit, len(where), generator, easy)
    return Images(f"synthetic drawn digits ({'easy, ' if easy else ''}seed {seed})", images, labels)
