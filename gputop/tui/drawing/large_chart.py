"""Large charts, drawn by plotext: curves of one metric over time or steps, as lines of spans.

plotext is imported on the first drawing (about 50 ms), never with this module. It has one process-wide figure, so a
drawing sets everything that it depends on. The data must be decimated already (``curves_of``): plotext's cost grows with
the points, not with the columns. Pure: the same chart gives the same lines.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gputop import units
from gputop.history.series import Bucket, MetricSeries, Series
from gputop.history.smoothing import smooth
from gputop.tui.drawing.line import STYLES, Line, Span

LABEL_COLUMNS = 8
"""Width of the labels on the y axis: fixed, so that charts above one another share their x axis."""
_RANK_STYLES = tuple(style for style in STYLES if style.startswith("rank"))
_RANK_MARKERS = "0123456789abcdefghijklmnopqrstuvwxyz"
_COLOUR_BASE = 100
"""Style i of STYLES is plotext's colour _COLOUR_BASE + i: a code to read back, never shown."""
_SGR = re.compile(r"\x1b\[([0-9;]*)m")
_ASCII_FRAME = str.maketrans("┌┐└┘─│┤├┬┴┼", "++++-|+++++")
_TIME_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
_COLUMNS_PER_TICK = 14
_SMALLEST = (24, 5)
Y_MAX, Y_MIN = 1e300, 1e-290
"""An axis goes no further, and spans no less: beyond, floating point has neither ticks nor distances."""


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve; the legend names those with a label. ``marker`` stands for it where colour or braille cannot."""

    label: str
    style: str
    marker: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Chart:
    """All that a drawing depends on; equal charts have equal pictures.

    ``x_kind`` is "time" (seconds, shown since ``x_start``) or "step". ``marks`` are the x of NaN or infinite values.
    ``plain`` tells the curves apart by their characters: for terminals without colour. ``y_range`` fixes the y axis.
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


def span_of(series: Mapping[int, MetricSeries], x_kind: str) -> tuple[float, float] | None:
    """Return the smallest and largest x of a metric over all its ranks, or None while there is no value."""
    spans = [found for item in series.values() if (found := _axis(item, x_kind).span()) is not None]
    if not spans:
        return None
    return min(span[0] for span in spans), max(span[1] for span in spans)


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
    """Return the curves of a metric, decimated to ``columns`` stretches, and the x of its NaN and infinite values.

    One curve per rank, or the mean over the ranks between the smallest and the largest value seen (the spread).
    ``smoothing`` is the weight of the past (0 to 0.99) in the curve of a rank and of the mean; the spread stays raw.
    """
    end = _wide_enough(start, end)
    per_series = {rank: _axis(item, x_kind).columns(start, end, columns) for rank, item in sorted(series.items())}
    marks = sorted({bucket.x_last for row in per_series.values() for bucket in row if bucket and bucket.non_finite})
    if per_rank:
        curves = [
            Curve(
                f"rank {rank}",
                _RANK_STYLES[rank % len(_RANK_STYLES)],
                _RANK_MARKERS[rank % len(_RANK_MARKERS)],
                _smoothed_means(row, smoothing) if smoothing else _low_and_high(row),
            )
            for rank, row in per_series.items()
        ]
        return tuple(curves), tuple(marks)
    means, lows, highs = _mean_and_spread(list(per_series.values()))
    curves = [Curve("mean" if len(per_series) > 1 else "value", "accent", "*", _smoothed(means, smoothing))]
    if any(low[1] < high[1] for low, high in zip(lows, highs, strict=True)):
        curves = [Curve("lowest and highest", "dim", ".", lows), Curve("", "dim", ".", highs), *curves]
    return tuple(curves), tuple(marks)


def device_curves(
    series: Sequence[tuple[int, Series]], start: float, end: float, columns: int, per_device: bool
) -> tuple[Curve, ...]:
    """Return the curves of one reading of several devices, given as (index, series): each device, or mean and spread."""
    end = _wide_enough(start, end)
    rows = [(index, item.columns(start, end, columns)) for index, item in series]
    if per_device:
        return tuple(
            Curve(
                f"GPU {index}",
                _RANK_STYLES[order % len(_RANK_STYLES)],
                _RANK_MARKERS[index % len(_RANK_MARKERS)],
                _smoothed_means(row, 0.0),
            )
            for order, (index, row) in enumerate(rows)
        )
    means, lows, highs = _mean_and_spread([row for _, row in rows])
    curves = (Curve("mean", "accent", "*", means),)
    if len(rows) > 1:
        return (Curve("lowest and highest", "dim", ".", lows), Curve("", "dim", ".", highs), *curves)
    return curves


def legend(chart: Chart) -> Line:
    """Return one line that names the curves and says what the marks are."""
    spans: list[Span] = []
    for curve in chart.curves:
        if not curve.label:
            continue
        sign = curve.marker if chart.ascii or chart.plain else "━"
        spans += [Span(sign, curve.style), Span(f" {curve.label}  ", "text" if curve.style != "dim" else "dim")]
    if chart.marks:
        spans.append(Span(f"! {len(chart.marks)} NaN or infinite", "bad"))
    return tuple(spans)


def draw(chart: Chart) -> tuple[Line, ...]:
    """Return exactly ``height`` lines of ``width`` columns; a sentence instead where there is nothing to draw."""
    if chart.width < _SMALLEST[0] or chart.height < _SMALLEST[1]:
        return _sentence(chart, "too small for a chart")
    curves = [_in_scale(curve, chart.log) for curve in chart.curves]
    values = [value for curve in curves for _, value in curve.points]
    if not values or chart.x_end < chart.x_start:
        if chart.marks:
            return _sentence(chart, "every value so far is NaN or infinite", "bad")
        dropped = chart.log and any(curve.points for curve in chart.curves)
        return _sentence(chart, "no value above 0: no logarithm to draw (y: linear axis)" if dropped else "no values yet")
    low, high = _y_limits(values, chart)
    text = _plot(chart, curves, low, high)
    if chart.ascii:
        text = text.translate(_ASCII_FRAME)
    lines = [_spans(line, chart.width) for line in text.split("\n")][: chart.height]
    return tuple(lines + [(Span(" " * chart.width),)] * (chart.height - len(lines)))


def _wide_enough(start: float, end: float) -> float:
    """Give a single value an axis."""
    return end if end - start > abs(start) * 1e-12 else start + max(1.0, abs(start) * 1e-9)


def _axis(item: MetricSeries, x_kind: str) -> Series:
    return item.by_step if x_kind == "step" else item.by_time


def _middle(bucket: Bucket) -> float:
    return (bucket.x_first + bucket.x_last) / 2


def _low_and_high(row: Sequence[Bucket | None]) -> tuple[tuple[float, float], ...]:
    points: list[tuple[float, float]] = []
    for bucket in row:
        if bucket is None or not bucket.count:
            continue
        points.append((_middle(bucket), bucket.low))
        if bucket.high > bucket.low:
            points.append((_middle(bucket), bucket.high))
    return tuple(points)


def _smoothed_means(row: Sequence[Bucket | None], weight: float) -> tuple[tuple[float, float], ...]:
    return _smoothed([(_middle(bucket), bucket.mean) for bucket in row if bucket is not None and bucket.count], weight)


def _smoothed(points: Sequence[tuple[float, float]], weight: float) -> tuple[tuple[float, float], ...]:
    values = smooth((value for _, value in points), weight)
    return tuple((x, value) for (x, _), value in zip(points, values, strict=True) if value is not None)


def _mean_and_spread(
    rows: Sequence[Sequence[Bucket | None]],
) -> tuple[tuple[tuple[float, float], ...], ...]:
    means, lows, highs = [], [], []
    for column in zip(*rows, strict=True):
        seen = [bucket for bucket in column if bucket is not None and bucket.count]
        if not seen:
            continue
        x = sum(_middle(bucket) for bucket in seen) / len(seen)
        means.append((x, units.mean([bucket.mean for bucket in seen])))
        lows.append((x, min(bucket.low for bucket in seen)))
        highs.append((x, max(bucket.high for bucket in seen)))
    return tuple(means), tuple(lows), tuple(highs)


def _in_scale(curve: Curve, log: bool) -> Curve:
    if not log:
        return curve
    points = tuple((x, math.log10(value)) for x, value in curve.points if value > 0)
    return Curve(curve.label, curve.style, curve.marker, points)


def _y_limits(values: Sequence[float], chart: Chart) -> tuple[float, float]:
    if chart.y_range is not None:
        return chart.y_range
    low, high = (min(Y_MAX, max(-Y_MAX, limit)) for limit in (min(values), max(values)))
    if high - low > Y_MIN:
        return low - 0.03 * (high - low), high + 0.03 * (high - low)
    room = abs(low) * 0.1
    room = room if room > Y_MIN else 1.0
    return low - room, high + room


def _plot(chart: Chart, curves: Sequence[Curve], low: float, high: float) -> str:
    import plotext

    letters = chart.ascii or chart.plain
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.limit_size(False, False)  # plotext would cut the picture to the terminal that it finds
    plotext.plot_size(chart.width, chart.height)
    plotext.xaxes(True, False)
    plotext.yaxes(True, False)
    start, end = chart.x_start, _wide_enough(chart.x_start, chart.x_end)
    plotext.xlim(start, end)
    plotext.ylim(low, high)
    for curve in curves:
        if not curve.points:
            continue
        xs, ys = [x for x, _ in curve.points], [min(max(y, low), high) for _, y in curve.points]
        plotext.plot(xs, ys, marker=curve.marker if letters else "braille", color=_COLOUR_BASE + STYLES.index(curve.style))
    if chart.marks:
        plotext.scatter(list(chart.marks), [low] * len(chart.marks), marker="!", color=_COLOUR_BASE + STYLES.index("bad"))
    y_ticks = _log_ticks(low, high) if chart.log else nice_ticks(low, high, max(2, chart.height // 3))
    plotext.yticks([value for value, _ in y_ticks], [_y_label(text, chart.unit) for _, text in y_ticks])
    x_ticks = _x_ticks(chart, start, end)
    plotext.xticks([value for value, _ in x_ticks], [text for _, text in x_ticks])
    return str(plotext.build())


def _y_label(text: str, unit: str) -> str:
    return f"{text}{unit}"[:LABEL_COLUMNS].rjust(LABEL_COLUMNS)


def nice_ticks(low: float, high: float, most: int) -> list[tuple[float, str]]:
    """Return at most ``most`` + 1 round values in [low, high], each with its text."""
    raw = (high - low) / max(1, most)
    magnitude = 10 ** math.floor(math.log10(raw))
    step = next(factor * magnitude for factor in (1, 2, 2.5, 5, 10) if factor * magnitude >= raw)
    digits = max(0, math.ceil(-math.log10(step)) + (1 if step / magnitude == 2.5 else 0))
    first = math.ceil(low / step)
    ticks = []
    for number in range(first, first + most + 2):
        value = number * step
        if value > high:
            break
        far = abs(high) >= 10**6 or digits > 5
        ticks.append((value, f"{value:.2g}" if far else f"{value + 0.0:.{digits}f}"))
    return ticks


def _log_ticks(low: float, high: float) -> list[tuple[float, str]]:
    factors = (1, 2, 5) if high - low < 3 else (1,)
    ticks = [
        (math.log10(factor) + power, units.metric(factor * 10.0**power, 3))
        for power in range(max(-300, math.floor(low)), min(300, math.ceil(high)) + 1)
        for factor in factors
        if low <= math.log10(factor) + power <= high
    ]
    middle = min(300.0, max(-300.0, (low + high) / 2))
    return ticks or [(middle, units.metric(10**middle, 3))]


def _x_ticks(chart: Chart, start: float, end: float) -> list[tuple[float, str]]:
    most = max(1, (chart.width - LABEL_COLUMNS) // _COLUMNS_PER_TICK)
    if chart.x_kind == "step":
        return [(value, units.count(value)) for value, _ in nice_ticks(start, end, most) if value == int(value)]
    step = next((step for step in _TIME_STEPS_S if (end - start) / step <= most), None)
    if step is None:
        step = 86400 * math.ceil((end - start) / 86400 / most)
    return [(start + number * step, units.duration(number * step)) for number in range(int((end - start) // step) + 1)]


def _spans(line: str, width: int) -> Line:
    spans: list[Span] = []
    style, at, room = "dim", 0, width
    for found in [*_SGR.finditer(line), None]:
        text = line[at : found.start() if found else len(line)][:room]
        if text:
            spans.append(Span(text, style))
            room -= len(text)
        if found:
            style, at = _style(found[1]), found.end()
    if room > 0:
        spans.append(Span(" " * room, "dim"))
    return tuple(spans)


def _style(code: str) -> str:
    parts = code.split(";")
    if parts[:2] == ["38", "5"]:
        return STYLES[int(parts[2]) - _COLOUR_BASE]
    return "dim"


def _sentence(chart: Chart, text: str, style: str = "dim") -> tuple[Line, ...]:
    blank: Line = (Span(" " * chart.width),)
    shown = (Span(text[: chart.width].center(chart.width), style),)
    above = max(0, chart.height // 2)
    return tuple([blank] * above + [shown] + [blank] * chart.height)[: chart.height]
