"""Min/max buckets of consecutive values, kept in columns of numbers, which take a third of the memory of objects.

While each bucket has one finite value, its place and its value are kept once: 18 bytes instead of 56.
"""

from __future__ import annotations

import math
import operator
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress
from typing import Any, TypeAlias, overload


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
        if not self.count:
            return math.nan
        mean = self.total / self.count
        return mean if self.low <= mean <= self.high else min(self.high, max(self.low, mean))

    def absorb(self, other: Bucket) -> None:
        """Merge the next neighbor into this bucket."""
        self.x_first = min(self.x_first, other.x_first)
        self.x_last = max(self.x_last, other.x_last)
        self.low = min(self.low, other.low)
        self.high = max(self.high, other.high)
        self.total += other.total
        self.count += other.count
        self.non_finite += other.non_finite
        if other.count:
            self.last = other.last


_Columns: TypeAlias = "list[array[Any]]"
"""low, high, total, count, last, non_finite. The four of values are one array while each bucket has one finite value."""


def _no_columns() -> _Columns:
    values = array("d")
    return [values, values, values, array("B"), values, array("B")]


class Buckets(Sequence[Bucket]):
    """A growing row of buckets. Each ``Bucket`` that it returns is a copy.

    Two rows may share their values: the same buckets along two axes. Each change to the first row must then be repeated on the
    second.
    """

    __slots__ = ("_columns", "_owns_values", "x_first", "x_last")

    def __init__(self, values_of: Buckets | None = None) -> None:
        """``values_of`` is the row whose values this one shares."""
        self.x_first = self.x_last = array("d")
        """The smallest and the largest x of each bucket: one array while each bucket has one value."""
        self._owns_values = values_of is None
        self._columns: _Columns = values_of._columns if values_of is not None else _no_columns()

    def append_each(self, x: Sequence[float], values: Sequence[float]) -> None:
        """Add a bucket for each value. Here and below, ``x`` and ``values`` have the same length and are not empty."""
        column = array("d", x)
        if self.x_last is not self.x_first:
            self.x_last += column
        self.x_first += column
        if not self._owns_values:
            return
        are_finite = _all_finite(values)
        if not are_finite:
            self._separate_values()
        low, high, total, count, last, non_finite = self._columns
        column = array("d", values)
        last += column
        if are_finite:
            if low is not last:
                low += column
                high += column
                total += column
            count.extend([1] * len(values))
            non_finite.extend([0] * len(values))
            return
        for value in values:
            finite = math.isfinite(value)
            low.append(value if finite else math.inf)
            high.append(value if finite else -math.inf)
            total.append(value if finite else 0.0)
            count.append(finite)
            non_finite.append(not finite)

    def append_all(self, x: Sequence[float], values: Sequence[float]) -> None:
        """Add one bucket with all these values."""
        self._separate()
        self.x_first.append(min(x))
        self.x_last.append(max(x))
        if not self._owns_values:
            return
        finite = _finite(values)
        low, high, total, count, last, non_finite = self._columns
        low.append(min(finite, default=math.inf))
        high.append(max(finite, default=-math.inf))
        total.append(sum(finite))
        count.append(len(finite))
        last.append(finite[-1] if finite else values[0])
        non_finite.append(len(values) - len(finite))

    def append_groups(self, x: Sequence[float], values: Sequence[float], size: int) -> None:
        """Add a bucket for every ``size`` values, as ``append_all`` would one by one. ``size`` divides their number."""
        if not _all_finite(values):
            for start in range(0, len(values), size):
                self.append_all(x[start : start + size], values[start : start + size])
            return
        self._separate()
        if ascends(x):
            self.x_first += array("d", x[::size])
            self.x_last += array("d", x[size - 1 :: size])
        else:
            places = [x[start : start + size] for start in range(0, len(x), size)]
            self.x_first.extend(map(min, places))
            self.x_last.extend(map(max, places))
        if not self._owns_values:
            return
        low, high, total, count, last, non_finite = self._columns
        members = [values[start : start + size] for start in range(0, len(values), size)]
        last.extend(values[size - 1 :: size])
        if min(values) == max(values):  # a metric that stays as it is, such as a learning rate
            low.extend([values[0]] * len(members))
            high.extend([values[0]] * len(members))
            total.extend([sum(members[0])] * len(members))
        else:
            low.extend(map(min, members))
            high.extend(map(max, members))
            total.extend(map(sum, members))
        count.extend([size] * len(members))
        non_finite.extend([0] * len(members))

    def extend_last(self, x: Sequence[float], values: Sequence[float]) -> None:
        """Add values to the last bucket."""
        self._separate()
        self.x_first[-1] = min(self.x_first[-1], min(x))
        self.x_last[-1] = max(self.x_last[-1], max(x))
        if not self._owns_values:
            return
        finite = _finite(values)
        low, high, total, count, last, non_finite = self._columns
        non_finite[-1] += len(values) - len(finite)
        if finite:
            low[-1] = min(low[-1], min(finite))
            high[-1] = max(high[-1], max(finite))
            total[-1] += sum(finite)
            count[-1] += len(finite)
            last[-1] = finite[-1]

    def halve(self) -> None:
        """Merge neighbors in pairs; a last bucket without a neighbor stays."""
        self._separate()
        if self._owns_values:
            self._halve_values()
        if ascends(self.x_first) and ascends(self.x_last):
            alone = self.x_last[len(self.x_last) - len(self.x_last) % 2 :]
            self.x_first[:] = self.x_first[::2]
            self.x_last[:] = self.x_last[1::2] + alone
            return
        self.x_first[:] = _in_pairs(self.x_first, min)
        self.x_last[:] = _in_pairs(self.x_last, max)

    def _separate(self) -> None:
        """Give each column an array of its own, from which on a bucket may have several values."""
        if self.x_last is self.x_first:
            self.x_last = self.x_first[:]
        if self._owns_values:
            self._separate_values()

    def _separate_values(self) -> None:
        low, _, _, count, last, non_finite = self._columns
        if low is last:
            # In place: a row that shares these values has the same list.
            self._columns[:] = [low, low[:], low[:], array("I", count), low[:], array("I", non_finite)]

    def _halve_values(self) -> None:
        low, high, total, count, last, non_finite = self._columns
        for place in range(0, len(count) - 1, 2):
            if not count[place + 1]:
                last[place + 1] = last[place]
        last[:] = last[1::2] + last[len(last) - len(last) % 2 :]
        low[:], high[:], total[:] = _in_pairs(low, min), _in_pairs(high, max), _in_pairs(total, operator.add)
        count[:], non_finite[:] = _in_pairs(count, operator.add), _in_pairs(non_finite, operator.add)

    def totals(self, first: int, last: int) -> tuple[float, int]:
        """Return the sum and the number of the finite values in buckets [first, last): far cheaper than one by one."""
        _, _, total, count, _, _ = self._columns
        return sum(total[first:last]), sum(count[first:last])

    def merged(self, first: int, last: int) -> Bucket:
        """Return buckets [first, last), at least one, merged: far cheaper than one by one."""
        if last == first + 1:
            return self[first]
        low, high, total, count, newest, non_finite = self._columns
        counts = count[first:last]
        finite = last - 1
        while finite > first and not count[finite]:
            finite -= 1
        return Bucket(
            min(self.x_first[first:last]),
            max(self.x_last[first:last]),
            min(low[first:last]),
            max(high[first:last]),
            sum(total[first:last]),
            sum(counts),
            newest[finite],
            sum(non_finite[first:last]),
        )

    def columns(self, first: int, last: int, start: float, end: float, number: int) -> Iterator[tuple[int, Bucket]]:
        """Divide [start, end] evenly into ``number`` columns; yield the merged buckets of each, with the column's index.

        A bucket belongs to the column of its middle x, or to none if that is outside [start, end]. Buckets keep their order:
        if x decreases, a column appears several times. ``end`` is greater than ``start``.
        """
        scale, after = number / (end - start), number - 1
        middles = [(low + high) / 2 for low, high in zip(self.x_first[first:last], self.x_last[first:last], strict=True)]
        places = [min(after, int((middle - start) * scale)) if start <= middle <= end else None for middle in middles]
        # A chart of many ranks has about as many buckets as columns, and most are alone in theirs: made together, they take a
        # third of the time.
        alone = self[first:last] if last - first <= number else None
        begin, count = 0, len(places)
        while begin < count:
            place, upto = places[begin], begin + 1
            while upto < count and places[upto] == place:
                upto += 1
            if place is not None:
                single = alone is not None and upto == begin + 1
                yield place, alone[begin] if alone is not None and single else self.merged(first + begin, first + upto)
            begin = upto

    def first_odd(self) -> int | None:
        """Return the place of the first bucket with NaN or an infinity, without a copy of each; None if there is none."""
        return next(compress(range(len(self)), self._columns[-1]), None)

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

    def newest_first(self) -> Iterator[tuple[float, float, float, int]]:
        """Yield (first x, last x, sum, number of finite values) of each bucket, the newest first: cheaper than whole ones."""
        _, _, total, count, _, _ = self._columns
        return zip(reversed(self.x_first), reversed(self.x_last), reversed(total), reversed(count), strict=True)


def ascends(x: Sequence[float]) -> bool:
    """Return whether no x is below the one before: then a bucket's first x is its smallest. Sorting what is sorted is quick."""
    return sorted(x) == list(x)


def _all_finite(values: Sequence[float]) -> bool:
    # One value that is not finite makes the sum not finite; a sum may also overflow, so check each value then.
    return math.isfinite(sum(values)) or all(map(math.isfinite, values))


def _finite(values: Sequence[float]) -> Sequence[float]:
    return values if _all_finite(values) else [value for value in values if math.isfinite(value)]


def _in_pairs(column: array[Any], merged: Callable[[Any, Any], Any]) -> array[Any]:
    """Return a column with neighbors merged in pairs; a last value without a neighbor stays."""
    alone = column[len(column) - len(column) % 2 :]
    return array(column.typecode, [*map(merged, column[::2], column[1::2]), *alone])
