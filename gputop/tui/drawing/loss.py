"""The live chart of a run's metric, cached between drawings because most of it does not change."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

from gputop import units
from gputop.history.buckets import Bucket
from gputop.history.columns import LiveColumns, steady_end
from gputop.history.metrics import MetricSeries
from gputop.history.smoothing import smooth
from gputop.snapshot import ENDED_STATES
from gputop.tui.drawing.braille import LABEL_CELLS, Axes, Trace, axis_of, chart, dot_columns, x_axis_lines
from gputop.tui.drawing.charts.axis import first_step, step_ticks, wide_enough
from gputop.tui.drawing.line import Line, Span, fit
from gputop.tui.state.view import View

MAX_CURVES = 8
"""More curves than styles would be indistinguishable: with more ranks than this, the mean and spread are drawn."""


class LossChart:
    """Draws one metric of a run over its steps; reuses a drawing until points, size or settings change."""

    def __init__(self) -> None:
        self._columns = LiveColumns()
        self._mean = MeanOfRanks()
        self._key: object = None
        self._lines: tuple[Line, ...] = ()

    def draw(self, view: View, metric: str, width: int, height: int) -> tuple[Line, ...]:
        """Return exactly ``height`` lines of ``width`` cells for the chosen run; a note if there are no points yet."""
        ranks = view.history.metric(view.run_id, metric) if view.run_id else {}
        settings = view.settings
        versions = tuple((rank, series.by_step.version) for rank, series in sorted(ranks.items()))
        key = (
            view.run_id,
            metric,
            versions,
            width,
            height,
            settings.ascii,
            settings.log_axis,
            settings.smoothing,
            settings.per_rank,
        )
        if key != self._key:
            self._key, self._lines = key, self._drawn(view, metric, ranks, width, height)
        return self._lines

    def _drawn(self, view: View, metric: str, ranks: dict[int, MetricSeries], width: int, height: int) -> tuple[Line, ...]:
        if height <= 0 or width <= 0:
            return ()
        settings = view.settings
        count = dot_columns(width, settings.ascii)
        present = {rank: series.by_step for rank, series in sorted(ranks.items()) if series.by_step.buckets}
        if not present or count <= 0:
            note = fit((Span(f"no {metric} yet", "dim"),), width)
            return (note, *[fit((), width)] * (height - 1))
        first = min(min(series.buckets.x_first[0], series.buckets.x_first[-1]) for series in present.values())
        last = max(max(series.buckets.x_last[-1], series.last_x or first) for series in present.values())
        start = first_step(first, last)
        ended = view.run is not None and view.run.state in ENDED_STATES
        end = wide_enough(start, max(last, start + 1) if ended else steady_end(start, last))
        keys = [(view.run_id, metric, rank) for rank in present]
        self._columns.keep_only(keys)
        columns = {
            rank: self._columns.columns(key, series, start, end, count)
            for key, (rank, series) in zip(keys, present.items(), strict=True)
        }
        if len(columns) == 1 or (settings.per_rank and len(columns) <= MAX_CURVES):
            drawn = curves_of_ranks(columns, settings.smoothing)
            self._mean = MeanOfRanks()  # it has missed a change
        else:
            drawn = [self._mean.trace(keys, list(columns.values()), self._columns.changed_from(keys), settings.smoothing)]
        ticks = step_ticks(start, end, width - LABEL_CELLS)
        rows = height - x_axis_lines(height, bool(ticks))
        scale = axis_of(drawn, rows, log=settings.log_axis, letters=settings.ascii)
        axes = Axes(
            (scale.low, scale.high),
            scale.ticks,
            tuple(((place - start) / (end - start), text) for place, text in ticks),
        )
        return chart(drawn, width, height, axes=axes, log=scale.log, ascii_only=settings.ascii)


def curves_of_ranks(columns: dict[int, list[Bucket | None]], weight: float) -> list[Trace]:
    """Return the curve of each rank's columns; that of a single rank has the range of its values around it.

    ``weight`` is the weight of the past in a curve (``history/smoothing.py``); the band is not smoothed.
    """
    drawn = []
    for rank, held in columns.items():
        values = [_value(bucket) for bucket in held]
        low, high = _edges([held]) if len(columns) == 1 else ((), ())
        drawn.append(Trace(smooth(values, weight), f"rank{rank % MAX_CURVES}", low, high))
    return drawn


class MeanOfRanks:
    """The mean of several ranks' columns between the lowest and highest value; only what has changed is computed again."""

    def __init__(self) -> None:
        self._keys: Sequence[Hashable] = ()
        self._means: list[float | None] = []
        self._low: list[float | None] = []
        self._high: list[float | None] = []

    def trace(
        self, keys: Sequence[Hashable], columns: Sequence[list[Bucket | None]], changed_from: int, weight: float
    ) -> Trace:
        """Return the curve.

        Args:
            keys: What distinguishes these columns from those of another metric or other ranks.
            columns: One list of each rank, of the same length.
            changed_from: With the same keys as in the last call, the columns before this place are unchanged.
            weight: The weight of the past in the curve; the band is not smoothed.
        """
        same = list(keys) == self._keys and len(columns[0]) >= len(self._means)
        begin = min(changed_from, len(self._means)) if same else 0
        changed = [column[begin:] for column in columns]
        low, high = _edges(changed)
        self._keys = list(keys)
        self._means[begin:] = [_mean(column) for column in zip(*changed, strict=True)]
        self._low[begin:], self._high[begin:] = low, high
        return Trace(smooth(self._means, weight), "rank0", list(self._low), list(self._high))


def _value(bucket: Bucket | None) -> float | None:
    if bucket is None:
        return None
    return bucket.mean if bucket.count and not bucket.non_finite else math.nan


def _mean(column: Sequence[Bucket | None]) -> float | None:
    known = [bucket for bucket in column if bucket is not None]
    if not known:
        return None
    # NaN in one rank makes the mean NaN, so that it is visible.
    if any(bucket.non_finite or not bucket.count for bucket in known):
        return math.nan
    return units.mean([bucket.mean for bucket in known])


def _edges(columns: Sequence[Sequence[Bucket | None]]) -> tuple[list[float | None], list[float | None]]:
    """Return the smallest and largest finite value of every column over all ranks, for the band."""
    low: list[float | None] = []
    high: list[float | None] = []
    for column in zip(*columns, strict=True):
        held = [bucket for bucket in column if bucket is not None and bucket.count]
        low.append(min([bucket.low for bucket in held], default=None))
        high.append(max([bucket.high for bucket in held], default=None))
    return low, high
