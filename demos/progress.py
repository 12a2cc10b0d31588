"""What the demos measure and print while they train: samples per second, a line now and then, accuracy."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterable

import torch
from torch import Tensor, nn

_PRINT_EVERY_S = 2.0


class Speed:
    """Samples per second of this process over its last 20 steps."""

    def __init__(self) -> None:
        self._marks: deque[tuple[float, int]] = deque([(time.perf_counter(), 0)], maxlen=21)

    def after(self, samples: int) -> float:
        """Count the samples of one more step and return samples per second."""
        now, seen = time.perf_counter(), self._marks[-1][1] + samples
        self._marks.append((now, seen))
        first_time, first_seen = self._marks[0]
        return (seen - first_seen) / max(now - first_time, 1e-9)


class Printer:
    """Prints a line of progress every two seconds, and whenever it is told to."""

    def __init__(self) -> None:
        self._next = time.monotonic()

    def step(self, step: int, total: int, epoch: int, loss: Tensor, samples_per_s: float) -> None:
        """Print the state of this step if it is time for a line. Reading the loss waits for the GPU: so not at every step."""
        if time.monotonic() < self._next and step != total:
            return
        self._next = time.monotonic() + _PRINT_EVERY_S
        print(f"epoch {epoch} step {step}/{total} loss {loss.item():.4f} {samples_per_s:.0f} samples/s", flush=True)


def correct(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], device: torch.device) -> tuple[int, int]:
    """Return how many images the model gets right, and how many it saw."""
    right = seen = 0
    model.eval()  # batch norm uses its running averages
    with torch.no_grad():
        for images, labels in batches:
            scores = model(images.to(device))
            right += int((scores.argmax(dim=1) == labels.to(device)).sum())
            seen += len(labels)
    model.train()
    return right, seen
