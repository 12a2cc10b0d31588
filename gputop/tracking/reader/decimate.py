"""Reduces unbounded series to bounded ones: keeps the minimum and maximum of each bucket, so that no spike is lost."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import chain

Point = tuple[int, int, float, float]
"""Index in the series, step, wall-clock seconds, value."""
Columns = tuple[tuple[int, ...], tuple[float, ...], tuple[float, ...]]
"""Steps, wall-clock seconds, values."""


class Decimator:
    """Keeps at most ``limit`` points of a series of any length: the minimum and maximum of each bucket.

    NaN, infinities and the last point are kept too. All buckets cover the same number of values; when there are too many,
    neighbors are merged.
    """

    __slots__ = ("_buckets", "_filled", "_last", "_seen", "_whole", "_width", "limit")

    def __init__(self, limit: int) -> None:
        self.limit = max(8, limit)
        self._whole: list[tuple[Sequence[int], Sequence[float], Sequence[float]]] = []
        """The columns that were added, as they are, while all points fit."""
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
        """Add points; ``wall`` converts a record's time to wall-clock seconds, ``walls`` returns all of them converted.

        The columns are kept: the caller must not change them any more.
        """
        index, total = 0, len(values)
        if not self._buckets and self._seen + total < self.limit:
            self._whole.append((steps, walls() if walls is not None else [*map(wall, times_ns)], values))
            self._seen += total
            return
        if self._whole:
            kept = zip(range(self._seen), *self._take_whole(), strict=True)
            self._buckets += zip(kept)
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

    def _take_whole(self) -> Columns:
        whole, self._whole = self._whole, []
        return _joined(whole)

    def _halve(self) -> None:
        pairs = zip(self._buckets[::2], self._buckets[1::2], strict=False)
        merged = [_merge(left + right) for left, right in pairs]
        if len(self._buckets) % 2:
            merged.append(self._buckets[-1])
            self._filled = self._width
        self._buckets = merged
        self._width *= 2

    def columns(self) -> Columns:
        """Return the kept points, in order of arrival: their steps, wall-clock seconds and values."""
        if not self._buckets:
            return _joined(self._whole)
        _, steps, times, values = zip(*self._points(), strict=True)
        return steps, times, values

    def _points(self) -> list[Point]:
        buckets = self._buckets
        limit = self.limit - 1
        while sum(map(len, buckets)) > limit and len(buckets) > 1:
            buckets = [_merge(sum(buckets[index : index + 2], ())) for index in range(0, len(buckets), 2)]
        kept = [point for bucket in buckets for point in bucket]
        if self._last is not None and (not kept or kept[-1][0] != self._last[0]):
            kept.append(self._last)
        return kept


def _joined(columns: Sequence[tuple[Sequence[int], Sequence[float], Sequence[float]]]) -> Columns:
    if len(columns) == 1:
        steps, times, values = columns[0]
        return tuple(steps), tuple(times), tuple(values)
    join = chain.from_iterable
    return (
        tuple(join(each[0] for each in columns)),
        tuple(join(each[1] for each in columns)),
        tuple(join(each[2] for each in columns)),
    )


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
