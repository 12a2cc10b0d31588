"""``gputop runs plot``: a run's metrics over its steps, as plots in the terminal or as plain text in a file or pipe."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import TextIO

from gputop.errors import UsageError
from gputop.history.series import MetricSeries, Series
from gputop.snapshot import Points, Run, loss_metric
from gputop.tui.drawing.large_chart import SMALLEST, Chart, columns_for, curves_of, span_of
from gputop.tui.drawing.line import clean
from gputop.tui.drawing.printed_plot import plot as draw_plot

MAX_SIZE = 1000
"""Maximum number of columns or rows of a plot."""
READ_POINTS = 4000
"""Points to read of each metric and rank: more than a terminal has columns. No spike is lost."""
_NO_TERMINAL = (80, 24)
_EXTRA_LINES = 3
"""A plot's title, its legend, and the blank line or prompt that follows."""

Metrics = Mapping[str, Mapping[int, MetricSeries]]
"""Metric -> rank -> values over the steps."""


def plot(
    run: Run,
    found: Iterable[Points],
    metrics: Sequence[str] = (),
    *,
    width: int | None = None,
    height: int | None = None,
    color: bool = True,
    ascii_only: bool = False,
) -> str:
    """Return the plots of a run's metrics, one below the other; without metrics, plot the loss.

    Args:
        run: The run.
        found: Its points.
        metrics: Names of metrics.
        width: Columns; None uses the terminal's.
        height: Rows of each plot; None divides the terminal's rows among the plots.
        color: Draw in color on a terminal, unless NO_COLOR is set.
        ascii_only: Draw with ASCII characters, as for an output that cannot encode others.

    Raises:
        UsageError: the run has no such metric, or a size is out of range.
    """
    _check_size("--width", width, SMALLEST[0])
    _check_size("--height", height, SMALLEST[1])
    known = _by_metric(found)
    if not known:
        return f"{clean(run.name)} ({run.run_id}) has no points yet."
    for metric in metrics:
        if metric not in known:
            listed = ", ".join(clean(name) for name in sorted(known))
            raise UsageError(f"Run {clean(run.name)} has no metric {clean(metric)!r}.", f"It has: {listed}.")
    wanted = list(metrics) or [loss_metric(known) or next(iter(known))]
    columns, rows = shutil.get_terminal_size(_NO_TERMINAL)
    width = width or min(MAX_SIZE, max(SMALLEST[0], columns))
    height = height or min(MAX_SIZE, max(2 * SMALLEST[1], rows // len(wanted) - _EXTRA_LINES))
    plain = not (color and sys.stdout.isatty() and not os.environ.get("NO_COLOR"))
    ascii_only = ascii_only or not _can_draw(sys.stdout)
    return "\n\n".join(
        f"{clean(metric)}  {clean(run.name)} {run.run_id}\n{_plotted(known[metric], width, height, plain, ascii_only)}"
        for metric in wanted
    )


def _check_size(option: str, value: int | None, least: int) -> None:
    if value is not None and not least <= value <= MAX_SIZE:
        raise UsageError(f"{option} {value} is out of range.", f"Choose between {least} and {MAX_SIZE}.")


def _by_metric(found: Iterable[Points]) -> Metrics:
    known: dict[str, dict[int, MetricSeries]] = {}
    for points in found:
        series = known.setdefault(points.metric, {}).setdefault(points.rank, MetricSeries(Series(), Series()))
        for step, value in zip(points.steps, points.values, strict=True):
            series.by_step.append(step, value)
    return known


def _plotted(series: Mapping[int, MetricSeries], width: int, height: int, plain: bool, ascii_only: bool) -> str:
    start, end = span_of(series, "step") or (0.0, 0.0)
    curves, marks = curves_of(series, x_kind="step", start=start, end=end, columns=columns_for(width), per_rank=False)
    return draw_plot(Chart(width, height, curves, start, end, "step", marks, ascii=ascii_only, plain=plain))


def _can_draw(output: TextIO) -> bool:
    """Return whether the output can encode braille and box characters."""
    try:
        "⣿┤".encode(output.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
