"""The newest values of one metric of one rank, unmerged, in columns that slice, compare and sum without a Python loop.

The columns are arrays: 24 bytes a point, where lists of Python's numbers take 104. 64 ranks that log quickly keep a million.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from itertools import compress
from typing import NamedTuple, overload

KEPT_POINTS = 600
"""Values kept of one metric of one rank: enough for windows of 200 steps at any rate."""
KEPT_QUICK = 2000
QUICK_S = 10.0
"""``KEPT_QUICK`` values are kept if ``KEPT_POINTS`` of them span less than this: only one in 32 quick iterations is fully
recorded, and rules need 60 of those with all values that belong to them."""
_STEP_MAX = 2**63 - 1
"""The columns hold 64-bit integers."""


class Point(NamedTuple):
    """One value of a metric: its step, the wall clock, and the value."""

    step: int
    time: float
    value: float


class PointSeries(Sequence[Point]):
    """Points in order of arrival. Treat the columns as read-only."""

    __slots__ = ("steps", "times", "values")

    def __init__(self, steps: Sequence[int] = (), times: Sequence[float] = (), values: Sequence[float] = ()) -> None:
        self.steps = array("q", steps)
        self.times = array("d", times)
        self.values = array("d", values)

    def extend(
        self, steps: Sequence[int], times: Sequence[float], values: Sequence[float], beside: PointSeries | None = None
    ) -> None:
        """Append points and drop the oldest beyond the limit. Columns of unequal length are cut to the shortest.

        A point whose step does not fit into 64 bits is left out: no training counts that far. ``beside`` is a series whose
        steps and times are shared if they are the same, as those of another metric in the same records are.
        """
        number = min(len(steps), len(times), len(values))
        if number < max(len(steps), len(times), len(values)):
            steps, times, values = steps[:number], times[:number], values[:number]
        try:
            new_steps = array("q", steps)
        except OverflowError:
            fitting = [-_STEP_MAX <= step <= _STEP_MAX for step in steps]
            new_steps = array("q", compress(steps, fitting))
            times, values = list(compress(times, fitting)), list(compress(values, fitting))
        # Not in place: another series may share them.
        self.steps, self.times = self.steps + new_steps, self.times + array("d", times)
        self.values.extend(values)
        if len(self.steps) > KEPT_POINTS:
            kept = KEPT_QUICK if self.times[-1] - self.times[-KEPT_POINTS] < QUICK_S else KEPT_POINTS
            self.steps, self.times = self.steps[-kept:], self.times[-kept:]
            del self.values[:-kept]
        # As bytes: Python makes an object of each double that it compares.
        if beside is not None and beside.steps == self.steps and beside.times.tobytes() == self.times.tobytes():
            self.steps, self.times = beside.steps, beside.times

    def clear(self) -> None:
        """Drop all points."""
        self.steps, self.times = array("q"), array("d")
        del self.values[:]

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
