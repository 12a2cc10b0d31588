"""The course of one metric since the run began: means of stretches, at a resolution that halves as they grow. Pure.

``Series`` keeps only the newest values. A rule that asks whether a loss ever fell needs its whole course, in few numbers.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

STEP_TIME = "step_s"
_RATE = re.compile(r"(?:^|[_/.])(?:throughput|(?:samples|tokens|images|it)_per_s(?:ec|econd)?)$", re.IGNORECASE)
STRETCHES_MAX = 64
"""With more stretches, neighbors are joined in pairs."""
FIRST_STRETCHES = 32
"""Number of stretches for the past that arrives with the first snapshot of a run."""
_STEP_MAX = 2**63 - 1
"""No training counts further."""


def is_rate(metric: str) -> bool:
    """Return whether a metric is a rate (samples, tokens or steps per second), judging by its name."""
    return _RATE.search(metric) is not None


def is_pace(metric: str) -> bool:
    """Return whether a metric shows the pace of a run: the step time, or a rate."""
    return metric == STEP_TIME or is_rate(metric)


@dataclass(frozen=True, slots=True)
class Stretch:
    """The mean of ``count`` neighboring finite values, the first of them at ``step``."""

    step: int
    mean: float
    count: int


class Levels:
    """The course of one metric in at most ``STRETCHES_MAX`` stretches, oldest first, without values that are not finite."""

    # In columns: each number of a snapshot that is kept would keep the memory around it from other use.
    __slots__ = ("_counts", "_full", "_means", "_steps", "highest", "lowest")

    def __init__(self) -> None:
        self._steps, self._means, self._counts = array("q"), array("d"), array("q")
        self._full = 1
        """A stretch with this many values is full."""
        self.lowest = math.inf
        """The smallest finite value."""
        self.highest = -math.inf
        """The largest finite value."""

    @property
    def stretches(self) -> list[Stretch]:
        """The stretches, each a copy."""
        return list(map(Stretch, self._steps, self._means, self._counts))

    def extend(self, steps: Sequence[int], values: Sequence[float]) -> None:
        """Add the values of one snapshot. The first ones may be a long past, and fill several stretches."""
        number = min(len(steps), len(values))
        size = number
        if not self._steps:
            size = self._full = max(1, -(-number // FIRST_STRETCHES))
        column = array("d", values)
        for begin in range(0, number, size or 1):
            part = [value for value in column[begin : begin + size] if math.isfinite(value)]
            if part:
                self.lowest = min(self.lowest, *part)
                self.highest = max(self.highest, *part)
                new = Stretch(max(-_STEP_MAX, min(_STEP_MAX, steps[begin])), sum(part) / len(part), len(part))
                if self._steps and self._counts[-1] < self._full:
                    new = _joined(Stretch(self._steps.pop(), self._means.pop(), self._counts.pop()), new)
                self._append(new)
        if len(self._steps) > STRETCHES_MAX:
            before = self.stretches
            last = before[-1:] if len(before) % 2 else []
            self._steps, self._means, self._counts = array("q"), array("d"), array("q")
            for joined in (*map(_joined, before[::2], before[1::2]), *last):
                self._append(joined)
            self._full *= 2

    def _append(self, stretch: Stretch) -> None:
        self._steps.append(stretch.step)
        self._means.append(stretch.mean)
        self._counts.append(stretch.count)


def _joined(first: Stretch, second: Stretch) -> Stretch:
    count = first.count + second.count
    # Weighted this way, the mean of two large values cannot overflow.
    mean = first.mean * (first.count / count) + second.mean * (second.count / count)
    return Stretch(first.step, mean, count)
