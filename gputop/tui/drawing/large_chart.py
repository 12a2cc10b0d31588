"""Charts of one metric over time or steps, with labeled axes: the curves, the legend, and the drawing for a live screen.

A chart is plain data; ``draw`` draws it with braille dots, ``printed_plot`` with plotext. Decimate the data first
(``curves_of``). Pure: the same chart gives the same lines.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gputop import units
from gputop.history.buckets import Bucket
from gputop.history.metrics import MetricSeries
from gputop.history.series import Series
from gputop.history.smoothing import smooth
from gputop.tui.drawing import braille
from gputop.tui.drawing.charts.axis import first_step, fixed_axis, wide_enough, y_axis
from gputop.tui.drawing.charts.x_axis import x_ticks
from gputop.tui.drawing.line import STYLES, Line, Span
from gputop.tui.drawing.over_ranks import mean_and_range, middle

LABEL_COLUMNS = 8
"""Width of the y axis labels: fixed, so that stacked charts share their x axis."""
_RANK_STYLES = tuple(style for style in STYLES if style.startswith("rank"))
_RANK_MARKERS = "0123456789abcdefghijklmnopqrstuvwxyz"
SMALLEST = (24, 5)
"""Columns and rows of the smallest chart."""


@dataclass(frozen=True, slots=True)
class Spread:
    """The range of the values around a curve: (x, lowest, highest).

    The range of several curves has a label in the legend. A ``solid`` range is drawn as part of its curve: it holds the values
    that the curve's own points leave out.
    """

    points: tuple[tuple[float, float, float], ...] = ()
    label: str = ""
    solid: bool = False


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve; the legend names curves that have a label. ``marker`` replaces the line without color or braille."""

    label: str
    style: str
    marker: str
    points: tuple[tuple[float, float], ...]
    spread: Spread = Spread()
    last: float | None = None
    """The newest value, if known: the last point is the mean of a column."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something that happened at ``x``: an epoch, a checkpoint, a finding. With an empty text, only the mark is drawn."""

    x: float
    text: str
    style: str = "dim"


@dataclass(frozen=True, slots=True)
class Chart:
    """Everything that a drawing depends on; equal charts give equal drawings.

    ``x_kind`` is one of those of ``charts.x_axis``. ``marks`` are the x of NaN or infinite values. ``plain`` distinguishes the
    curves by their characters, for terminals without color. ``y_range`` fixes the y axis. ``cursor`` is the x of a vertical
    line; ``notes`` name positions in the top row.
    """

    width: int
    height: int
    curves: tuple[Curve, ...]
    x_start: float
    x_end: float
    x_kind: str = "time"
    marks: tuple[float, ...] = ()
    log: bool = False
    y_range: tuple[float, float] | None = None
    unit: str = ""
    ascii: bool = False
    plain: bool = False
    cursor: float | None = None
    notes: tuple[Note, ...] = ()

    def share_of(self, x: float) -> float:
        """Return how far right of the axis a position is, from 0 to 1; 0 if the range is too wide for a float."""
        share = (x - self.x_start) / (wide_enough(self.x_start, self.x_end) - self.x_start)
        return min(1.0, max(0.0, share))

    def x_at(self, share: float) -> float:
        """Return the position at this distance to the right."""
        return self.x_start + share * (wide_enough(self.x_start, self.x_end) - self.x_start)


@dataclass(frozen=True, slots=True)
class Scale:
    """The axes of a chart: their ranges and their ticks, each a position and its text.

    ``low``, ``high`` and the positions in ``y_ticks`` are decimal logarithms on a logarithmic axis.
    """

    start: float
    end: float
    low: float
    high: float
    x_ticks: tuple[tuple[float, str], ...]
    y_ticks: tuple[tuple[float, str], ...]


def columns_for(width: int) -> int:
    """Return how many columns a chart of ``width`` cells can show: decimate its data to this many."""
    return max(1, braille.dot_columns(width, label_cells=LABEL_COLUMNS))


def span_of(series: Mapping[int, MetricSeries], x_kind: str) -> tuple[float, float] | None:
    """Return the smallest and largest x of a metric over all its ranks, or None while there is no value; steps start at 0."""
    spans = [found for item in series.values() if (found := _axis(item, x_kind).span()) is not None]
    if not spans:
        return None
    start, end = min(span[0] for span in spans), max(span[1] for span in spans)
    return (first_step(start, end) if x_kind == "step" else start), end


def curves_of(
    series: Mapping[int, MetricSeries],
    *,
    x_kind: str,
    start: float,
    end: float,
    columns: int,
    per_rank: bool,
    smoothing: float = 0.0,
) -> tuple[tuple[Curve, ...], tuple[float, ...]]:
    """Return the curves of a metric, decimated to ``columns`` columns, and the x of its NaN and infinite values.

    One curve per rank, or the mean over the ranks with the range from the smallest to the largest value (the spread). The curve
    of a rank loses no value: its spread covers the smallest and largest value of each column, unless it is smoothed.
    ``smoothing`` is the weight of the past (0 to 0.99) in the curve of a rank or of the mean; the spread is never smoothed.
    """
    end = wide_enough(start, end)
    per_series = {rank: _axis(item, x_kind).columns(start, end, columns) for rank, item in sorted(series.items())}
    marks = sorted({bucket.x_last for row in per_series.values() for bucket in row if bucket and bucket.non_finite})
    if per_rank:
        curves = [
            Curve(
                f"rank {rank}",
                _RANK_STYLES[rank % len(_RANK_STYLES)],
                _RANK_MARKERS[rank % len(_RANK_MARKERS)],
                _smoothed_means(row, smoothing),
                Spread() if smoothing else Spread(_low_and_high(row), solid=True),
            )
            for rank, row in per_series.items()
        ]
        return tuple(curves), tuple(marks)
    means, ranges = mean_and_range(list(per_series.values()))
    spread = Spread(ranges, "lowest and highest") if any(low != high for _, low, high in ranges) else Spread()
    label = "mean" if len(per_series) > 1 else "value"
    return (Curve(label, "accent", "*", _smoothed(means, smoothing), spread),), tuple(marks)


def legend(chart: Chart) -> Line:
    """Return one line that names the curves and explains the marks."""
    spans: list[Span] = []
    letters = chart.ascii or chart.plain
    for curve in chart.curves:
        if curve.label:
            spans += [Span(curve.marker if letters else "━", curve.style), Span(f" {curve.label}  ", "text")]
        if curve.spread.label:
            spans += [
                Span("." if letters else braille.BAND, "track" if letters else "band"),
                Span(f" {curve.spread.label}  ", "dim"),
            ]
    if chart.marks:
        spans.append(Span(f"{'x' if chart.ascii else '×'} NaN or infinite", "bad"))
    return tuple(spans)


def problem_of(chart: Chart) -> Span | None:
    """Return why there is nothing to draw, or None."""
    if chart.width < SMALLEST[0] or chart.height < SMALLEST[1]:
        return Span("too small for a chart", "dim")
    if not math.isfinite(chart.x_end - chart.x_start):
        return Span("its values lie too far apart to draw", "dim")
    if _values(chart) and chart.x_end >= chart.x_start:
        return None
    if chart.marks:
        return Span("every value so far is NaN or infinite", "bad")
    if chart.log and any(curve.points for curve in chart.curves):
        return Span("no value above 0: no logarithm to draw (y: linear axis)", "dim")
    return Span("no values yet", "dim")


def scale_of(chart: Chart) -> Scale:
    """Return the axes of a chart without a problem (``problem_of``)."""
    start, end = chart.x_start, wide_enough(chart.x_start, chart.x_end)
    rows = chart.height - braille.x_axis_lines(chart.height, True)
    if chart.y_range is not None:
        axis = fixed_axis(*chart.y_range, rows, chart.unit)
    else:
        values = _values(chart)
        axis = y_axis(min(values), max(values), rows, dots=1 if chart.ascii or chart.plain else 4, log=chart.log)
    ticks = x_ticks(chart.x_kind, start, end, chart.width - LABEL_COLUMNS - 1)
    return Scale(start, end, axis.low, axis.high, ticks, axis.ticks)


def draw(chart: Chart) -> tuple[Line, ...]:
    """Return exactly ``height`` lines of ``width`` columns; a sentence if there is nothing to draw."""
    problem = problem_of(chart)
    if problem is not None:
        return _sentence(chart, problem)
    scale = scale_of(chart)
    letters = chart.ascii or chart.plain
    count = braille.dot_columns(chart.width, letters, LABEL_COLUMNS)
    column = _Columns(scale.start, scale.end, count)
    reach = scale.end - scale.start
    axes = braille.Axes(
        (scale.low, scale.high),
        scale.y_ticks,
        tuple(((place - scale.start) / reach, text) for place, text in scale.x_ticks),
        LABEL_COLUMNS,
    )
    return braille.chart(
        [column.trace(curve, chart.log) for curve in chart.curves],
        chart.width,
        chart.height,
        axes=axes,
        crosses=[column.of(x) for x in chart.marks if scale.start <= x <= scale.end],
        rule=None if chart.cursor is None else column.of(chart.cursor),
        notes=[
            braille.Note(column.of(note.x), note.text, note.style) for note in chart.notes if scale.start <= note.x <= scale.end
        ],
        log=chart.log,
        ascii_only=chart.ascii,
        letters=letters,
    )


class _Columns:
    """The dot columns of an x axis."""

    def __init__(self, start: float, end: float, count: int) -> None:
        self.start, self.end, self.count = start, end, count

    def of(self, x: float) -> int:
        """Return the column of a position on the axis."""
        return min(self.count - 1, max(0, int((x - self.start) / (self.end - self.start) * self.count)))

    def trace(self, curve: Curve, log: bool) -> braille.Trace:
        """Return the curve with one value per column: the mean of the points in it."""
        sums: dict[int, list[float]] = {}
        for x, y in curve.points:
            sums.setdefault(self.of(x), []).append(y)
        values: list[float | None] = [None] * self.count
        for column, held in sums.items():
            values[column] = units.mean(held)
        low: list[float | None] = [None] * self.count
        high: list[float | None] = [None] * self.count
        for x, small, large in curve.spread.points:
            column = self.of(x)
            below, above = low[column], high[column]
            low[column] = small if below is None else min(below, small)
            high[column] = large if above is None else max(above, large)
        if not curve.spread.solid:
            low, high = bridged(low, log), bridged(high, log)
        return braille.Trace(values, curve.style, low, high, curve.marker, curve.spread.solid)


def bridged(values: Sequence[float | None], log: bool) -> list[float | None]:
    """Interpolate across columns without a value, along the axis: a spread has no gaps where steps are few."""
    result = list(values)
    known = [(at, value) for at, value in enumerate(values) if value is not None]
    for (left, before), (right, after) in itertools.pairwise(known):
        if log and (before <= 0 or after <= 0):
            continue
        lowest, highest = min(before, after), max(before, after)
        for at in range(left + 1, right):
            share = (at - left) / (right - left)
            between = before ** (1 - share) * after**share if log else before * (1 - share) + after * share
            # Rounding may leave the range, and with it the range of numbers.
            result[at] = min(highest, max(lowest, between))
    return result


def _axis(item: MetricSeries, x_kind: str) -> Series:
    return item.by_step if x_kind == "step" else item.by_time


def _low_and_high(row: Sequence[Bucket | None]) -> tuple[tuple[float, float, float], ...]:
    return tuple((middle(bucket), bucket.low, bucket.high) for bucket in row if bucket is not None and bucket.count)


def _smoothed_means(row: Sequence[Bucket | None], weight: float) -> tuple[tuple[float, float], ...]:
    return _smoothed([(middle(bucket), bucket.mean) for bucket in row if bucket is not None and bucket.count], weight)


def _smoothed(points: Sequence[tuple[float, float]], weight: float) -> tuple[tuple[float, float], ...]:
    values = smooth((value for _, value in points), weight)
    return tuple((x, value) for (x, _), value in zip(points, values, strict=True) if value is not None)


def _values(chart: Chart) -> list[float]:
    """Return every value of the chart that its y axis can show."""
    values = [y for curve in chart.curves for _, y in curve.points]
    values += [y for curve in chart.curves for _, *ends in curve.spread.points for y in ends]
    return [value for value in values if value > 0] if chart.log else values


def _sentence(chart: Chart, sentence: Span) -> tuple[Line, ...]:
    blank: Line = (Span(" " * chart.width),)
    shown = (Span(sentence.text[: chart.width].center(chart.width), sentence.style),)
    above = max(0, chart.height // 2)
    return tuple([blank] * above + [shown] + [blank] * chart.height)[: chart.height]
