"""One series as min/max buckets, bounded however long it lasts.

A ``Series`` holds a limited number of buckets. When they are full, neighbors are merged in pairs: the whole past remains, at
half the resolution, and no spike is lost, because a bucket keeps its smallest and largest value.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from gputop.history.buckets import Bucket, Buckets

BUCKETS = 4096
"""At 1 Hz this is 68 minutes at full resolution, 2 h 16 min at 2 s, and so on."""
TOGETHER = 128
"""This many values become buckets together, unless someone asks for the buckets before: a snapshot has values of hundreds of
series, few of which are drawn, and a few values at a time take several times as long. Until then, a value of a metric takes 24
bytes, however few buckets there are; four times as many together would take 2 to 8% less time."""
PIECE = 2048
"""At most this many values are Python numbers at a time: the past of a long run comes at once, and its memory would not go back
to the system, because other objects lie in between."""
X_MAX = 2.0**64
"""Larger than any step or time. Values beyond it, or at NaN, have no place on an axis."""


class Series:
    """A bounded series of (x, value); x is time in seconds or a step, and may decrease."""

    __slots__ = (
        "_along",
        "_buckets",
        "_new_values",
        "_new_x",
        "_taken_in",
        "_values_of",
        "last",
        "last_x",
        "limit",
        "version",
        "width",
    )

    def __init__(self, limit: int = BUCKETS, values_of: Series | None = None) -> None:
        """``values_of`` is the series whose values this one shares along another axis; extend that one first."""
        self.limit = limit
        self._values_of = values_of
        self._along: Series | None = None
        """The series that shares the values of this one."""
        if values_of is not None:
            values_of._along = self
        self._buckets = Buckets(values_of.buckets if values_of is not None else None)
        self._new_x = array("d")
        self._new_values = array("d")
        """What no bucket contains yet; a series that shares its values has only their places."""
        self.width = 1
        self._taken_in = 0
        self.version = 0
        """Increases with each value: a drawing stays valid while this is unchanged."""
        self.last: float | None = None
        self.last_x: float | None = None

    @property
    def buckets(self) -> Buckets:
        """The buckets of all values, which later values change."""
        if self._new_x:
            self._take_new()
        return self._buckets

    @property
    def samples(self) -> int:
        """How many values there have been."""
        return self._taken_in + len(self._new_x)

    def append(self, x: float, value: float) -> None:
        """Add one value. NaN and infinities are counted and marked, but not averaged. Ignore a value without a valid x."""
        if not -X_MAX <= x <= X_MAX:
            return
        self.version += 1
        self.last, self.last_x = value, x
        self._new_x.append(x)
        if self._values_of is None:
            self._new_values.append(value)
        if self._along is None and len(self._new_x) >= TOGETHER:
            self._take_new()

    def extend(self, x: Sequence[float], values: Sequence[float]) -> None:
        """Add values, one for each ``x``, all of which are valid."""
        if not values:
            return
        self.version += len(values)
        self.last, self.last_x = values[-1], x[-1]
        self._new_x.extend(x)
        if self._values_of is None:
            self._new_values.extend(values)
        if self._along is None and len(self._new_x) >= TOGETHER:
            self._take_new()

    def _take_new(self) -> None:
        """Make buckets of the new values, along both axes: the buckets share the values."""
        first = self._values_of or self
        rows = [series for series in (first, first._along) if series is not None]
        values, first._new_values = first._new_values, array("d")
        places = [row._new_x for row in rows]
        for row in rows:
            row._new_x = array("d")
        for start in range(0, len(values), PIECE):
            piece = values[start : start + PIECE].tolist()
            for row, x in zip(rows, places, strict=True):
                row._take_in(x[start : start + PIECE].tolist(), piece)

    def _take_in(self, x: Sequence[float], values: Sequence[float]) -> None:
        buckets, start = self._buckets, 0
        while start < len(values):
            started = self._taken_in % self.width
            if started and buckets:
                end = start + self.width - started
                buckets.extend_last(x[start:end], values[start:end])
            else:
                if len(buckets) >= self.limit:
                    self._halve()
                    while len(buckets) >= self.limit and len(buckets) > 1:
                        self._halve()  # the limit was lowered
                if self.width == 1:
                    end = start + self.limit - len(buckets)
                    buckets.append_each(x[start:end], values[start:end])
                elif self._taken_in % self.width == 0 and len(values) - start >= self.width:
                    whole = min((len(values) - start) // self.width, self.limit - len(buckets))
                    end = start + whole * self.width
                    buckets.append_groups(x[start:end], values[start:end], self.width)
                else:
                    end = start + self.width - self._taken_in % self.width
                    buckets.append_all(x[start:end], values[start:end])
            end = min(end, len(values))
            self._taken_in += end - start
            start = end

    def _halve(self) -> None:
        self._buckets.halve()
        self.width *= 2

    def span(self) -> tuple[float, float] | None:
        """Return the smallest and largest x, or None while empty."""
        buckets = self.buckets
        if not buckets:
            return None
        return min(buckets.x_first), max(buckets.x_last)

    def columns(self, start: float, end: float, count: int) -> list[Bucket | None]:
        """Return ``count`` buckets that divide [start, end] evenly; None if there are no values.

        A bucket belongs to the column of its middle x. The columns are copies: the caller may keep them.
        """
        result: list[Bucket | None] = [None] * count
        if count <= 0 or end <= start:
            return result
        buckets = self.buckets
        for place, bucket in buckets.columns(0, len(buckets), start, end, count):
            held = result[place]
            if held is None:
                result[place] = bucket
            else:
                held.absorb(bucket)
        return result
