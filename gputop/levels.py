"""The course of one metric since the run began: means of stretches, at a resolution that halves as they grow. Pure.

``Series`` keeps only the newest values. A rule that asks whether a loss ever fell needs its whole course, in few numbers.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

STEP_TIME = "step_s"
_RATE = re.compile(r"(?:^|[_/.])(?:throughput|(?:samples|tokens|images|it)_per_s(?:ec|econd)?)$", re.IGNORECASE)
STRETCHES_MAX = 64
"""With more stretches, neighbors are joined in pairs."""
FIRST_STRETCHES = 32
"""Number of stretches for the past that arrives with the first snapshot of a run."""


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

    __slots__ = ("_full", "highest", "lowest", "stretches")

    def __init__(self) -> None:
        self.stretches: list[Stretch] = []
        self._full = 1
        """A stretch with this many values is full."""
        self.lowest = math.inf
        """The smallest finite value."""
        self.highest = -math.inf
        """The largest finite value."""

    def extend(self, steps: Sequence[int], values: Sequence[float]) -> None:
        """Add the values of one snapshot. The first ones may be a long past, and fill several stretches."""
        number = min(len(steps), len(values))
        size = number
        if not self.stretches:
            size = self._full = max(1, -(-number // FIRST_STRETCHES))
        for begin in range(0, number, size or 1):
            part = [value for value in values[begin : begin + size] if math.isfinite(value)]
            if part:
                self.lowest = min(self.lowest, *part)
                self.highest = max(self.highest, *part)
                new = Stretch(steps[begin], sum(part) / len(part), len(part))
                if self.stretches and self.stretches[-1].count < self._full:
                    new = _joined(self.stretches.pop(), new)
                self.stretches.append(new)
        if len(self.stretches) > STRETCHES_MAX:
            pairs = zip(self.stretches[::2], self.stretches[1::2], strict=False)
            last = self.stretches[-1:] if len(self.stretches) % 2 else []
            self.stretches = [_joined(first, second) for first, second in pairs] + last
            self._full *= 2


def _joined(first: Stretch, second: Stretch) -> Stretch:
    count = first.count + second.count
    # Weighted this way, the mean of two large values cannot overflow.
    mean = first.mean * (first.count / count) + second.mean * (second.count / count)
    return Stretch(first.step, mean, count)
