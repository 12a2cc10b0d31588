"""Min/max buckets of consecutive values, kept in columns of numbers: a third of what as many objects take."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload


@dataclass(slots=True)
class Bucket:
    """``count`` consecutive values between ``x_first`` and ``x_last``; ``non_finite`` counts NaN and infinities."""

    x_first: float
    x_last: float
    low: float
    high: float
    total: float
    count: int
    last: float
    non_finite: int = 0

    @property
    def mean(self) -> float:
        """Mean of the finite values; NaN if there are none. Clamped to their range, even if their sum overflows."""
        return min(self.high, max(self.low, self.total / self.count)) if self.count else math.nan

    def absorb(self, other: Bucket) -> None:
        """Merge the neighbor that follows."""
        self.x_first = min(self.x_first, other.x_first)
        self.x_last = max(self.x_last, other.x_last)
        self.low = min(self.low, other.low)
        self.high = max(self.high, other.high)
        self.total += other.total
        self.count += other.count
        self.non_finite += other.non_finite
        if other.count:
            self.last = other.last


class Buckets(Sequence[Bucket]):
    """A growing row of buckets. Each ``Bucket`` that it returns is a copy."""

    __slots__ = ("_columns", "x_first", "x_last")

    def __init__(self) -> None:
        self.x_first = array("d")
        self.x_last = array("d")
        # low, high, total, count, last, non_finite
        self._columns = (array("d"), array("d"), array("d"), array("I"), array("d"), array("I"))

    def append(self, x: float, value: float) -> None:
        """Add a bucket with one value."""
        finite = math.isfinite(value)
        self.x_first.append(x)
        self.x_last.append(x)
        low, high, total, count, last, non_finite = self._columns
        last.append(value)
        if finite:
            low.append(value)
            high.append(value)
            total.append(value)
            count.append(1)
            non_finite.append(0)
        else:
            low.append(math.inf)
            high.append(-math.inf)
            total.append(0.0)
            count.append(0)
            non_finite.append(1)

    def extend_last(self, x: float, value: float) -> None:
        """Add a value to the last bucket."""
        finite = math.isfinite(value)
        self.x_first[-1] = min(self.x_first[-1], x)
        self.x_last[-1] = max(self.x_last[-1], x)
        low, high, total, count, last, non_finite = self._columns
        if finite:
            low[-1] = min(low[-1], value)
            high[-1] = max(high[-1], value)
            total[-1] += value
            count[-1] += 1
            last[-1] = value
        else:
            non_finite[-1] += 1

    def halve(self) -> None:
        """Merge neighbors in pairs; a last one without a neighbor stays."""
        halved = Buckets()
        for place in range(0, len(self), 2):
            bucket = self[place]
            if place + 1 < len(self):
                bucket.absorb(self[place + 1])
            halved._add(bucket)
        self.x_first, self.x_last, self._columns = halved.x_first, halved.x_last, halved._columns

    def _add(self, bucket: Bucket) -> None:
        low, high, total, count, last, non_finite = self._columns
        self.x_first.append(bucket.x_first)
        self.x_last.append(bucket.x_last)
        low.append(bucket.low)
        high.append(bucket.high)
        total.append(bucket.total)
        count.append(bucket.count)
        last.append(bucket.last)
        non_finite.append(bucket.non_finite)

    def totals(self, first: int, last: int) -> tuple[float, int]:
        """Return the sum and the number of the finite values in buckets [first, last): far cheaper than one by one."""
        _, _, total, count, _, _ = self._columns
        return sum(total[first:last]), sum(count[first:last])

    def __len__(self) -> int:
        return len(self.x_first)

    @overload
    def __getitem__(self, place: int) -> Bucket: ...

    @overload
    def __getitem__(self, place: slice) -> list[Bucket]: ...

    def __getitem__(self, place: int | slice) -> Bucket | list[Bucket]:
        low, high, total, count, last, non_finite = self._columns
        if isinstance(place, slice):
            columns = (low, high, total, count, last, non_finite)
            return list(map(Bucket, self.x_first[place], self.x_last[place], *(column[place] for column in columns)))
        return Bucket(
            self.x_first[place],
            self.x_last[place],
            low[place],
            high[place],
            total[place],
            count[place],
            last[place],
            non_finite[place],
        )

    def __iter__(self) -> Iterator[Bucket]:
        return map(Bucket, self.x_first, self.x_last, *self._columns)

    def __reversed__(self) -> Iterator[Bucket]:
        return map(Bucket, *(reversed(column) for column in (self.x_first, self.x_last, *self._columns)))
