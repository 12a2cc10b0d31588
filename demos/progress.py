"""What the demos measure and print while they train: samples per second, regular progress lines, accuracy."""

from __future__ import annotations

import time
import zlib
from collections import deque
from collections.abc import Iterable

import torch
from torch import Tensor, nn

import gputop

_PRINT_EVERY_S = 2.0


def say(line: str) -> None:
    """Print a line in a single write, because ranks share the terminal."""
    print(f"{line}\n", end="", flush=True)


class Meter:
    """Counts optimizer steps, logs each to gputop, and prints a line every two seconds and at the end."""

    def __init__(self, run: gputop.Run, total: int, epochs: int, lr: float) -> None:
        self.run = run
        self.step = 0
        self.total = total
        self._lr = lr
        # Samples per second of this process over its last 20 steps.
        self._marks: deque[tuple[float, int]] = deque([(time.perf_counter(), 0)], maxlen=21)
        self._next = time.monotonic()
        run.fact("progress", {"total_steps": total, "epochs": epochs})

    @property
    def done(self) -> bool:
        """Whether all steps are done."""
        return self.step >= self.total

    def count(self, loss: Tensor, samples: int, epoch: int) -> None:
        """Record one optimizer step. Reading a loss waits for the GPU, so it is read only for printed lines."""
        self.step += 1
        now, seen = time.perf_counter(), self._marks[-1][1] + samples
        self._marks.append((now, seen))
        first_time, first_seen = self._marks[0]
        speed = (seen - first_seen) / max(now - first_time, 1e-9)
        self.run.log(step=self.step, loss=loss, lr=self._lr, epoch=epoch, samples_per_s=speed)
        if time.monotonic() >= self._next or self.done:
            self._next = time.monotonic() + _PRINT_EVERY_S
            say(f"epoch {epoch} step {self.step}/{self.total} loss {loss.item():.4f} {speed:.0f} samples/s")

    def tested(self, epoch: int, accuracy: float, shown: bool = True) -> None:
        """Record the accuracy after an epoch."""
        self.run.log(step=self.step, accuracy=accuracy)
        if shown:
            say(f"epoch {epoch} accuracy {accuracy:.3f}")


def correct(model: nn.Module, batches: Iterable[tuple[Tensor, Tensor]], device: torch.device) -> tuple[int, int]:
    """Return the number of correctly classified images, and the number of images."""
    right = seen = 0
    model.eval()  # batch norm uses its running averages
    with torch.no_grad():
        for images, labels in batches:
            scores = model(images.to(device))
            right += int((scores.argmax(dim=1) == labels.to(device)).sum())
            seen += len(labels)
    model.train()
    return right, seen


def checksum(tensors: Iterable[Tensor]) -> str:
    """Return eight digits that differ when any value differs: ranks can be compared at a glance."""
    found = 0
    for tensor in tensors:
        found = zlib.crc32(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes(), found)
    return f"{found:08x}"
