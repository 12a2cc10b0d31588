"""Where a run's values lie along the x axis: steps, time since its start, epochs, or the time of day. Pure."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from gputop.history.history import History
from gputop.snapshot import Run
from gputop.tui.drawing.run_numbers import EPOCH_METRIC

X_KINDS = ("time", "step", "epoch", "clock")
"""In the order in which a key switches them."""
_VALUES_LEAST = 20
"""Of fewer values, the next ones may still change which axis shows them."""
_PLACES = 100
"""About as many cells as a chart is wide."""
X_WORDS = {"time": "time since start", "step": "steps", "epoch": "epochs", "clock": "time of day"}


@dataclass(frozen=True, slots=True)
class Positions:
    """How the x of a chart is derived from the positions of a series: steps, or wall-clock seconds."""

    base: str
    """"step" or "time": which of the series of a metric."""
    to_x: Callable[[float], float]
    of_x: Callable[[float], float]


def positions(kind: str, run: Run, history: History) -> Positions | None:
    """Return a run's positions on an axis of this kind; None if the run has no data for it."""
    if kind in ("step", "clock"):
        return Positions("step" if kind == "step" else "time", _same, _same)
    if kind == "time":
        start = run.created_at or _first_time(run, history)
        return None if start is None else Positions("time", lambda at: at - start, lambda x: x + start)
    ends = epochs_of(run, history)
    if len(ends) < 2:
        return None
    steps, epochs = [step for step, _ in ends], [epoch for _, epoch in ends]
    return Positions("step", lambda step: _between(step, steps, epochs), lambda epoch: _between(epoch, epochs, steps))


def first_kind(run: Run, metric: str, history: History) -> str | None:
    """Return the axis on which to open a run's chart: "time", or "step" if time would put most of the curve into one column.

    The lines of a log that was there before gputop have the time at which they were read. None while there are few values.
    """
    series = next(iter(history.metric(run.run_id, metric).values()), None)
    if series is None or len(series.by_step.buckets) < _VALUES_LEAST:
        return None
    steps, times = series.by_step.buckets.x_first, series.by_time.buckets.x_first
    start = min(times) if run.created_at is None else min(*times, run.created_at)
    place_s = (max(times) - start) / _PLACES
    if not 0 < place_s < math.inf:
        return "step"
    places = groupby(zip(times, steps, strict=True), lambda value: int((value[0] - start) / place_s))
    held = [[step for _, step in values] for _, values in places]
    most = max(max(inside) - min(inside) for inside in held)
    return "step" if 2 * most > max(steps) - min(steps) else "time"


def _same(x: float) -> float:
    return x


def _first_time(run: Run, history: History) -> float | None:
    spans = [
        span[0]
        for name in history.metrics(run.run_id)
        for series in history.metric(run.run_id, name).values()
        if (span := series.by_time.span()) is not None
    ]
    return min(spans, default=None)


def epochs_of(run: Run, history: History, *, by_step: bool = True) -> list[tuple[float, float]]:
    """Return (step or time, epoch) where a new epoch begins, or at each value if a run logs fractions; both ascend."""
    series = next(iter(history.metric(run.run_id, EPOCH_METRIC).values()), None)
    found: list[tuple[float, float]] = []
    kept = None if series is None else series.by_step if by_step else series.by_time
    for bucket in kept.buckets if kept is not None else ():
        if bucket.count and (not found or (bucket.low > found[-1][1] and bucket.x_first > found[-1][0])):
            found.append((bucket.x_first, bucket.low))
    return found


def _between(x: float, xs: Sequence[float], ys: Sequence[float]) -> float:
    """Interpolate between known points; beyond them, at the pace of the nearest two."""
    place = min(max(1, bisect.bisect_left(xs, x)), len(xs) - 1)
    share = (x - xs[place - 1]) / (xs[place] - xs[place - 1])
    return ys[place - 1] + share * (ys[place] - ys[place - 1])
