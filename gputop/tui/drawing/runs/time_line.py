"""Means of a series between the columns of a chart, whatever its x axis is, so that rows below it line up. Pure."""

from __future__ import annotations

import bisect
import math
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from gputop.history.metrics import MetricSeries
from gputop.history.series import Series
from gputop.tui.drawing.runs.overlay import Layer

BRIDGED_DISTANCES = 3.0
"""A gap of up to this many usual distances between values does not count: there are fewer values than columns."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The edges of a chart's columns, as wall-clock seconds and, on an axis of steps or epochs, as steps."""

    times: tuple[float, ...]
    steps: tuple[float, ...] | None = None

    def only(self, place: int) -> Columns:
        """Return one of the columns."""
        edges = slice(place, place + 2)
        return Columns(self.times[edges], None if self.steps is None else self.steps[edges])

    def of(self, item: MetricSeries) -> list[float | None]:
        """Return the means of a metric of a rank."""
        return means(item.by_time, self.times) if self.steps is None else means(item.by_step, self.steps)


def columns_of(layer: Layer, start: float, end: float, count: int) -> Columns | None:
    """Return the edges of ``count`` columns between two x of a chart; None while the run has no values."""
    edges = tuple(layer.where.of_x(start + (end - start) * n / count) for n in range(count + 1))
    if layer.where.base == "time":
        return Columns(edges)
    series = next(iter(layer.series.values()))
    times = [bucket.x_first for bucket in series.by_time.buckets]
    steps = [bucket.x_first for bucket in series.by_step.buckets]
    if not times or len(times) != len(steps):
        return None
    return Columns(tuple(_between(edge, steps, times) for edge in edges), edges)


def means(series: Series, edges: Sequence[float]) -> list[float | None]:
    """Return the mean of the finite values between each two edges, which ascend; short gaps keep the value before them."""
    buckets = series.buckets
    at = buckets.x_first
    if all(map(operator.le, at, at[1:])):
        places = [bisect.bisect_left(at, edge) for edge in edges]
        places[-1] = bisect.bisect_right(at, edges[-1])
        found = [buckets.totals(first, last) for first, last in pairwise(places)]
    else:  # a resumed run went back
        found = [(0.0, 0)] * (len(edges) - 1)
        for number, x in enumerate(at):
            place = bisect.bisect_right(edges, x) - 1 - (x == edges[-1])
            if 0 <= place < len(found):
                total, count = buckets.totals(number, number + 1)
                found[place] = (found[place][0] + total, found[place][1] + count)
    values = [total / count if count else None for total, count in found]
    return _bridged([value if value is not None and math.isfinite(value) else None for value in values])


def _bridged(values: list[float | None]) -> list[float | None]:
    known = [at for at, value in enumerate(values) if value is not None]
    distances = [right - left for left, right in pairwise(known)]
    reach = BRIDGED_DISTANCES * median(distances) if distances else 1.0
    for left, right in pairwise(known):
        if right - left <= reach:
            values[left + 1 : right] = [values[left]] * (right - left - 1)
    return values


def _between(x: float, xs: Sequence[float], ys: Sequence[float]) -> float:
    """Interpolate between known points, and stay at the ends beyond them."""
    place = bisect.bisect_left(xs, x)
    if place == 0 or place == len(xs):
        return ys[min(place, len(ys) - 1)]
    span = xs[place] - xs[place - 1]
    share = (x - xs[place - 1]) / span if span > 0 else 1.0
    return ys[place - 1] + share * (ys[place] - ys[place - 1])
