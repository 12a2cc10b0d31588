"""One series as min/max buckets, bounded however long it lasts.

A ``Series`` holds a limited number of buckets. When they are full, neighbors are merged in pairs: the whole past remains, at
half the resolution, and no spike is lost, because a bucket keeps its smallest and largest value.
"""

from __future__ import annotations

from collections.abc import Sequence

from gputop.history.buckets import Bucket, Buckets

BUCKETS = 4096
"""At 1 Hz this is 68 minutes at full resolution, 2 h 16 min at 2 s, and so on."""
TOGETHER = 16
"""So many values that were added one by one become buckets together, which takes a fifth of the time."""
X_MAX = 2.0**64
"""Larger than any step or time. Values beyond it, or at NaN, have no place on an axis."""


class Series:
    """A bounded series of (x, value); x is time in seconds or a step, and may decrease."""

    __slots__ = ("_buckets", "_new_values", "_new_x", "_taken_in", "last", "last_x", "limit", "version", "width")

    def __init__(self, limit: int = BUCKETS, values_of: Series | None = None) -> None:
        """``values_of`` is the series whose values this one shares along another axis; extend that one first."""
        self.limit = limit
        self._buckets = Buckets(values_of.buckets if values_of is not None else None)
        self._new_x: list[float] = []
        self._new_values: list[float] = []
        """What ``append`` has added, and no bucket contains yet."""
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
        """Add one value. NaN and infinities are counted and marked, but not averaged. Ignore a value without a valid x.

        Each snapshot has over a hundred readings, and few of them are drawn: several together become buckets, or all when
        someone asks for ``buckets``.
        """
        if not -X_MAX <= x <= X_MAX:
            return
        self.version += 1
        self.last, self.last_x = value, x
        self._new_x.append(x)
        self._new_values.append(value)
        if len(self._new_x) >= TOGETHER:
            self._take_new()

    def extend(self, x: Sequence[float], values: Sequence[float], *, ascends: bool = False) -> None:
        """Add values, one for each ``x``, all of which are valid. ``ascends``: no x is below the one before, as is known."""
        if not values:
            return
        if self._new_x:
            self._take_new()
        self.version += len(values)
        self.last, self.last_x = values[-1], x[-1]
        self._take_in(x, values, ascends)

    def _take_new(self) -> None:
        x, self._new_x = self._new_x, []
        values, self._new_values = self._new_values, []
        self._take_in(x, values)

    def _take_in(self, x: Sequence[float], values: Sequence[float], ascends: bool = False) -> None:
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
                    buckets.append_groups(x[start:end], values[start:end], self.width, ascends)
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
