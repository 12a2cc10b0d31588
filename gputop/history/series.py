"""One series as min/max buckets, bounded however long it lasts.

A ``Series`` holds a limited number of buckets. When they are full, neighbors are merged in pairs: the whole past remains, at
half the resolution, and no spike is lost, because a bucket keeps its smallest and largest value.
"""

from __future__ import annotations

from collections.abc import Sequence

from gputop.history.buckets import Bucket, Buckets

BUCKETS = 4096
"""At 1 Hz this is 68 minutes at full resolution, 2 h 16 min at 2 s, and so on."""
X_MAX = 2.0**64
"""Larger than any step or time. Values beyond it, or at NaN, have no place on an axis."""


class Series:
    """A bounded series of (x, value); x is time in seconds or a step, and may decrease."""

    __slots__ = ("buckets", "last", "last_x", "limit", "samples", "version", "width")

    def __init__(self, limit: int = BUCKETS, values_of: Series | None = None) -> None:
        """``values_of`` is the series whose values this one shares along another axis; append to that one first."""
        self.limit = limit
        self.buckets: Buckets = Buckets(values_of.buckets if values_of is not None else None)
        self.width = 1
        self.samples = 0
        self.version = 0
        """Increases with each value: a drawing stays valid while this is unchanged."""
        self.last: float | None = None
        self.last_x: float | None = None

    def append(self, x: float, value: float) -> None:
        """Add one value. NaN and infinities are counted and marked, but not averaged. Ignore a value without a valid x."""
        if not -X_MAX <= x <= X_MAX:
            return
        if self.width == 1 and len(self.buckets) < self.limit:  # the first hour: a hundred readings in each snapshot
            self.version += 1
            self.samples += 1
            self.last, self.last_x = value, x
            self.buckets.append(x, value)
        else:
            self.extend((x,), (value,))

    def extend(self, x: Sequence[float], values: Sequence[float]) -> None:
        """Add values, one for each ``x``, all of which are valid."""
        if not values:
            return
        self.version += len(values)
        self.last, self.last_x = values[-1], x[-1]
        start = 0
        while start < len(values):
            started = self.samples % self.width
            if started and self.buckets:
                end = start + self.width - started
                self.buckets.extend_last(x[start:end], values[start:end])
            else:
                if len(self.buckets) >= self.limit:
                    self._halve()
                    while len(self.buckets) >= self.limit and len(self.buckets) > 1:
                        self._halve()  # the limit was lowered
                if self.width == 1:
                    end = start + self.limit - len(self.buckets)
                    self.buckets.append_each(x[start:end], values[start:end])
                elif self.samples % self.width == 0 and len(values) - start >= self.width:
                    whole = min((len(values) - start) // self.width, self.limit - len(self.buckets))
                    end = start + whole * self.width
                    self.buckets.append_groups(x[start:end], values[start:end], self.width)
                else:
                    end = start + self.width - self.samples % self.width
                    self.buckets.append_all(x[start:end], values[start:end])
            end = min(end, len(values))
            self.samples += end - start
            start = end

    def _halve(self) -> None:
        self.buckets.halve()
        self.width *= 2

    def span(self) -> tuple[float, float] | None:
        """Return the smallest and largest x, or None while empty."""
        if not self.buckets:
            return None
        return min(self.buckets.x_first), max(self.buckets.x_last)

    def columns(self, start: float, end: float, count: int) -> list[Bucket | None]:
        """Return ``count`` buckets that divide [start, end] evenly; None if there are no values.

        A bucket belongs to the column of its middle x. The columns are copies: the caller may keep them.
        """
        result: list[Bucket | None] = [None] * count
        if count <= 0 or end <= start:
            return result
        for place, bucket in self.buckets.columns(0, len(self.buckets), start, end, count):
            held = result[place]
            if held is None:
                result[place] = bucket
            else:
                held.absorb(bucket)
        return result
