"""The newest values of one metric of one rank, unmerged, in columns that slice, compare and sum without a Python loop."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple, overload

KEPT_POINTS = 600
"""Values kept of one metric of one rank: enough for windows of 200 steps at any rate."""
KEPT_QUICK = 2000
QUICK_S = 10.0
"""``KEPT_QUICK`` values are kept if ``KEPT_POINTS`` of them span less than this: only one in 32 quick iterations is fully
recorded, and rules need 60 of those with all values that belong to them."""


class Point(NamedTuple):
    """One value of a metric: its step, the wall clock, and the value."""

    step: int
    time: float
    value: float


class PointSeries(Sequence[Point]):
    """Points in order of arrival. Treat the columns as read-only."""

    __slots__ = ("steps", "times", "values")

    def __init__(self, steps: Sequence[int] = (), times: Sequence[float] = (), values: Sequence[float] = ()) -> None:
        self.steps = list(steps)
        self.times = list(times)
        self.values = list(values)

    def extend(self, steps: Sequence[int], times: Sequence[float], values: Sequence[float]) -> None:
        """Append points and drop the oldest beyond the limit. Columns of unequal length are cut to the shortest."""
        number = min(len(steps), len(times), len(values))
        self.steps += steps[:number]
        self.times += times[:number]
        self.values += values[:number]
        if len(self.steps) > KEPT_POINTS:
            kept = KEPT_QUICK if self.times[-1] - self.times[-KEPT_POINTS] < QUICK_S else KEPT_POINTS
            for column in (self.steps, self.times, self.values):
                del column[:-kept]

    def clear(self) -> None:
        """Drop all points."""
        for column in (self.steps, self.times, self.values):
            column.clear()

    def finite(self) -> bool:
        """Return whether no value is NaN or infinite."""
        # One non-finite value makes the sum non-finite; a sum may also overflow, so check each value then.
        return math.isfinite(sum(self.values)) or all(map(math.isfinite, self.values))

    def total(self) -> float:
        """Return the sum of the finite values."""
        total = sum(self.values)
        return total if math.isfinite(total) else sum(filter(math.isfinite, self.values))

    def __len__(self) -> int:
        return len(self.steps)

    @overload
    def __getitem__(self, place: int) -> Point: ...

    @overload
    def __getitem__(self, place: slice) -> PointSeries: ...

    def __getitem__(self, place: int | slice) -> Point | PointSeries:
        if isinstance(place, slice):
            found = PointSeries.__new__(PointSeries)
            found.steps, found.times, found.values = self.steps[place], self.times[place], self.values[place]
            return found
        return Point(self.steps[place], self.times[place], self.values[place])

    def __iter__(self) -> Iterator[Point]:
        return map(Point, self.steps, self.times, self.values)

    def __reversed__(self) -> Iterator[Point]:
        return map(Point, reversed(self.steps), reversed(self.times), reversed(self.values))


EMPTY = PointSeries()
