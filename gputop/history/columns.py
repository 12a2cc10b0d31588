"""Chart columns of a growing series, updated incrementally: each update processes only new values.

``Series.columns`` walks the whole past, but a chart that is drawn every second requests the same stretch again and again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable

from gputop.history.buckets import Bucket
from gputop.history.series import Series

GROWTH = 2 ** (1 / 4)
"""The end of an axis moves by this factor: in between, no column moves, and at most 16% of the chart stays empty."""


@dataclasses.dataclass(slots=True)
class _Held:
    series: Series
    domain: tuple[float, float, int]
    width: int
    taken: int
    columns: list[Bucket | None]
    changed_from: int = 0
    growing: int | None = None
    """The place of the last bucket, which may still grow and move."""


class LiveColumns:
    """Caches the columns of several series, each under a key."""

    def __init__(self) -> None:
        self._held: dict[Hashable, _Held] = {}

    def columns(self, key: Hashable, series: Series, start: float, end: float, count: int) -> list[Bucket | None]:
        """Return the result of ``series.columns(start, end, count)``; the caller must not modify the buckets."""
        if count <= 0 or end <= start or not series.buckets:
            return [None] * max(0, count)
        domain = (start, end, count)
        held = self._held.get(key)
        complete = len(series.buckets) - 1
        if (
            held is None
            or held.series is not series
            or held.domain != domain
            or held.width != series.width
            or held.taken > complete
        ):
            held = self._held[key] = _Held(series, domain, series.width, 0, [None] * count)
            changed = [0]
        else:
            changed = [count if held.growing is None else held.growing]
        for place, bucket in series.buckets.columns(held.taken, complete, start, end, count):
            before = held.columns[place]
            if before is None:
                held.columns[place] = bucket
            else:
                before.absorb(bucket)
            changed.append(place)
        held.taken = complete
        # The last bucket may still grow, so merge it into a copy.
        result = list(held.columns)
        held.growing = None
        for place, bucket in series.buckets.columns(complete, complete + 1, start, end, count):
            before = result[place]
            if before is not None:
                before = dataclasses.replace(before)
                before.absorb(bucket)
            result[place] = before or bucket
            held.growing = place
            changed.append(place)
        held.changed_from = min(changed)
        return result

    def changed_from(self, keys: Iterable[Hashable]) -> int:
        """Return the first place at which columns of these keys differ from those of the call before; 0 for a new key."""
        return min((self._held[key].changed_from if key in self._held else 0 for key in keys), default=0)

    def keep_only(self, keys: Iterable[Hashable]) -> None:
        """Forget all other keys."""
        wanted = set(keys)
        for key in [key for key in self._held if key not in wanted]:
            del self._held[key]


def steady_end(start: float, last: float) -> float:
    """Return an axis end that covers ``start`` to ``last`` and moves only occasionally (by ``GROWTH``)."""
    span = 10.0
    while span < last - start:
        span *= GROWTH
    return start + span
