"""Reduces unbounded series to bounded ones: keeps the minimum and maximum of each bucket, so that no spike is lost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

Point = tuple[int, int, float, float]
"""Index in the series, step, wall-clock seconds, value."""


class Decimator:
    """Keeps at most ``limit`` points of a series of any length: the minimum and maximum of each bucket.

    NaN, infinities and the last point are kept too. All buckets cover the same number of values; when there are too many,
    neighbors are merged.
    """

    __slots__ = ("_buckets", "_filled", "_last", "_seen", "_width", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = max(8, limit)
        self._buckets: list[tuple[Point, ...]] = []
        self._width = 1
        self._filled = 0
        self._seen = 0
        self._last: Point | None = None

    def extend(
        self,
        steps: Sequence[int],
        times_ns: Sequence[int],
        values: Sequence[float],
        wall: Callable[[int], float],
        walls: Callable[[], Sequence[float]] | None = None,
    ) -> None:
        """Add points; ``wall`` converts a record's time to wall-clock seconds, ``walls`` returns all of them converted."""
        index, total = 0, len(values)
        if self._width == 1 and len(self._buckets) + total < self.limit:
            # While all points fit, keep every one.
            numbers = range(self._seen, self._seen + total)
            self._buckets += zip(
                zip(numbers, steps, walls() if walls is not None else map(wall, times_ns), values, strict=True)
            )
            self._seen, index = self._seen + total, total
        while index < total:
            upto = min(total, index + self._width - self._filled)
            part = values[index:upto]
            picks = _extremes(part)
            found = tuple(
                (self._seen + pick, steps[index + pick], wall(times_ns[index + pick]), part[pick]) for pick in sorted(picks)
            )
            if self._filled:
                self._buckets[-1] = _merge(self._buckets[-1] + found)
            else:
                self._buckets.append(found)
            self._filled = (self._filled + upto - index) % self._width
            self._seen += upto - index
            index = upto
            if not self._filled and len(self._buckets) >= (self.limit if self._width == 1 else self.limit // 2):
                self._halve()
        if total:
            self._last = (self._seen - 1, steps[-1], wall(times_ns[-1]), values[-1])

    def _halve(self) -> None:
        pairs = zip(self._buckets[::2], self._buckets[1::2], strict=False)
        merged = [_merge(left + right) for left, right in pairs]
        if len(self._buckets) % 2:
            merged.append(self._buckets[-1])
            self._filled = self._width
        self._buckets = merged
        self._width *= 2

    def points(self) -> list[Point]:
        """Return the kept points, in order of arrival: (index, step, wall-clock seconds, value)."""
        buckets = self._buckets
        limit = self.limit - 1
        while sum(map(len, buckets)) > limit and len(buckets) > 1:
            buckets = [_merge(sum(buckets[index : index + 2], ())) for index in range(0, len(buckets), 2)]
        kept = [point for bucket in buckets for point in bucket]
        if self._last is not None and (not kept or kept[-1][0] != self._last[0]):
            kept.append(self._last)
        return kept


def _extremes(values: Sequence[float]) -> set[int]:
    """Return the indices of the minimum, the maximum, and the first of each kind of non-finite value."""
    if len(values) == 1:
        return {0}
    if math.isfinite(sum(values)):
        return {values.index(min(values)), values.index(max(values))}
    picks: set[int] = set()
    finite = [value for value in values if math.isfinite(value)]
    if finite:
        picks |= {values.index(min(finite)), values.index(max(finite))}
    odd: dict[str, int] = {}
    for index, value in enumerate(values):
        if not math.isfinite(value):
            odd.setdefault(str(value), index)
    return picks | set(odd.values())


def _merge(points: tuple[Point, ...]) -> tuple[Point, ...]:
    if len(points) <= 2:
        return points
    picks = _extremes([point[3] for point in points])
    return tuple(points[pick] for pick in sorted(picks))
