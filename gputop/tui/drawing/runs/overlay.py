"""One metric of several runs in one chart: their curves, their hues, and their values at one position. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gputop import units
from gputop.history.history import History
from gputop.history.metrics import MetricSeries
from gputop.losses import loss_metric
from gputop.snapshot import Run
from gputop.tui.drawing import large_chart
from gputop.tui.drawing.charts.x_axis import x_text
from gputop.tui.drawing.large_chart import Chart, Curve, Spread
from gputop.tui.drawing.line import Line, Span, clean, clip_text
from gputop.tui.drawing.runs.positions import Positions, positions

HUES = ("rank1", "rank2", "rank3", "rank4", "rank5", "rank6", "rank7")
"""Styles of the marked runs' curves; the run under the cursor has the accent unless it is marked."""
MARKERS = "oxab#%&"
LABEL_CELLS_MAX = 24
"""A longer name of a run is cut in the legend."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A run in a chart: the series of the chart's metric by rank, and the style of its curve."""

    run: Run
    series: Mapping[int, MetricSeries]
    where: Positions
    style: str = "accent"
    marker: str = "*"


def layers_of(runs: Sequence[tuple[Run, str]], metric: str, kind: str, history: History) -> list[Layer]:
    """Return the runs, each with the style of its curve, that have values of ``metric`` on an axis of this kind.

    If the metric is the first run's training loss, the others show theirs, whatever its name.
    """
    found = []
    is_loss = bool(runs) and metric == loss_metric(history.metrics(runs[0][0].run_id))
    for run, style in runs:
        name = (loss_metric(history.metrics(run.run_id)) or metric) if is_loss else metric
        series, where = history.metric(run.run_id, name), positions(kind, run, history)
        if series and where is not None:
            marker = MARKERS[HUES.index(style)] if style in HUES else "*"
            found.append(Layer(run, series, where, style, marker))
    return found


def span_of(layers: Sequence[Layer]) -> tuple[float, float] | None:
    """Return the smallest and largest x of all layers; None while there is no value."""
    spans = []
    for layer in layers:
        span = large_chart.span_of(layer.series, layer.where.base)
        if span is not None:
            spans.append((layer.where.to_x(span[0]), layer.where.to_x(span[1])))
    return (min(start for start, _ in spans), max(end for _, end in spans)) if spans else None


def curves_of(
    layers: Sequence[Layer], start: float, end: float, columns: int, *, per_rank: bool, smoothing: float
) -> tuple[tuple[Curve, ...], tuple[float, ...]]:
    """Return the curves of all layers between two x, and the x of NaN and infinite values.

    A single run is drawn as ``large_chart`` draws it; of several, each is one curve with the run's name.
    """
    curves: list[Curve] = []
    marks: set[float] = set()
    alone = len(layers) == 1
    for layer in layers:
        drawn, odd = large_chart.curves_of(
            layer.series,
            x_kind=layer.where.base,
            start=layer.where.of_x(start),
            end=layer.where.of_x(end),
            columns=columns,
            per_rank=per_rank and alone,
            smoothing=smoothing,
        )
        if not (per_rank and alone):
            lasts = [item.by_step.last for item in layer.series.values() if item.by_step.last is not None]
            drawn = (replace(drawn[0], last=units.mean(lasts) if lasts else None),)
        curves += [moved(curve, layer.where) for curve in drawn] if alone else [_named(moved(drawn[0], layer.where), layer)]
        marks.update(map(layer.where.to_x, odd))
    return tuple(curves), tuple(sorted(marks))


def moved(curve: Curve, where: Positions) -> Curve:
    """Return a curve along the series' own positions as a curve along the x axis."""
    to_x = where.to_x
    spread = replace(curve.spread, points=tuple((to_x(x), low, high) for x, low, high in curve.spread.points))
    return replace(curve, points=tuple((to_x(x), y) for x, y in curve.points), spread=spread)


def _named(curve: Curve, layer: Layer) -> Curve:
    """Return the curve in its run's look. It has no range of values: ranges of several runs would hide one another."""
    label = clip_text(clean(layer.run.name), LABEL_CELLS_MAX)
    return replace(curve, label=label, style=layer.style, marker=layer.marker, spread=Spread())


def readout(chart: Chart) -> Line:
    """Return one line with the position of the chart's cursor and each curve's value there: the nearest one drawn."""
    if chart.cursor is None:
        return ()
    letters = chart.ascii or chart.plain
    spans = [Span(x_text(chart.x_kind, chart.cursor), "value"), Span("  ")]
    for curve, style, value in values_at(chart):
        spans += [
            Span(curve.marker if letters else "━", style),
            Span(f" {curve.label} ", "dim"),
            Span(units.metric(value), "value"),
            Span("  "),
        ]
    return tuple(spans)


def values_at(chart: Chart) -> list[tuple[Curve, str, float | None]]:
    """Return each curve, its style, and its value at the cursor: the nearest one drawn. Without a cursor, its last value."""
    at = chart.cursor
    if at is None:
        return [(curve, curve.style, curve.last) for curve in chart.curves]
    nearest = [min(curve.points, key=lambda point: abs(point[0] - at), default=None) for curve in chart.curves]
    return [
        (curve, curve.style, None if point is None else point[1]) for curve, point in zip(chart.curves, nearest, strict=True)
    ]
