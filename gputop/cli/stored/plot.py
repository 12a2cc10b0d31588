"""``gputop runs plot``: plots metrics of one or several runs over their steps, in the terminal or as plain text elsewhere."""

from __future__ import annotations

import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TextIO

from gputop.errors import UsageError
from gputop.history.history import History
from gputop.snapshot import Points, Run, loss_metric
from gputop.tui.drawing.large_chart import SMALLEST, Chart, columns_for
from gputop.tui.drawing.line import clean
from gputop.tui.drawing.printed_plot import plot as draw_plot
from gputop.tui.drawing.runs.overlay import HUES, curves_of, layers_of, span_of

MAX_SIZE = 1000
"""Maximum number of columns or rows of a plot."""
READ_POINTS = 4000
"""Points to read of each metric and rank: more than a terminal has columns. No spike is lost."""
_NO_TERMINAL = (80, 24)
_EXTRA_LINES = 3
"""A plot's title, its legend, and the blank line or prompt that follows."""


def plot(
    run: Run,
    found: Iterable[Points],
    metrics: Sequence[str] = (),
    others: Iterable[tuple[Run, Iterable[Points]]] = (),
    *,
    width: int | None = None,
    height: int | None = None,
    color: bool = True,
    ascii_only: bool = False,
) -> str:
    """Return the plots of a run's metrics, one below the other; without metrics, plot the loss.

    A single run is drawn as the mean over its ranks with their range; of several runs, each is one curve.

    Args:
        run: The run.
        found: Its points.
        metrics: Names of metrics.
        others: Further runs to draw in the same plots, and their points.
        width: Columns; None uses the terminal's.
        height: Rows of each plot; None divides the terminal's rows among the plots.
        color: Draw in color on a terminal, unless NO_COLOR is set.
        ascii_only: Draw with ASCII characters, as for an output that cannot encode others.

    Raises:
        UsageError: a run has no such metric, a size is out of range, or there are too many runs.
    """
    _check_size("--width", width, SMALLEST[0])
    _check_size("--height", height, SMALLEST[1])
    history = History()
    history.recall(found)
    runs = {run.run_id: run}
    for other, points in others:
        history.recall(points)
        runs.setdefault(other.run_id, other)
    if len(runs) > 1 + len(HUES):
        raise UsageError(f"{len(runs)} runs are too many for one plot.", f"Compare {1 + len(HUES)} at most.")
    known = history.metrics(run.run_id)
    if not known:
        return f"{clean(run.name)} ({run.run_id}) has no points yet."
    wanted = list(metrics) or [loss_metric(known) or known[0]]
    for metric in wanted:
        _check_metric(metric, list(runs.values()), history)
    columns, rows = shutil.get_terminal_size(_NO_TERMINAL)
    width = width or min(MAX_SIZE, max(SMALLEST[0], columns))
    height = height or min(MAX_SIZE, max(2 * SMALLEST[1], rows // len(wanted) - _EXTRA_LINES))
    plain = not (color and sys.stdout.isatty() and not os.environ.get("NO_COLOR"))
    ascii_only = ascii_only or not _can_draw(sys.stdout)
    title = ", ".join(f"{clean(item.name)} {item.run_id}" for item in runs.values())
    drawn = _distinguished(list(runs.values()))
    return "\n\n".join(
        f"{clean(metric)}  {title}\n{_plotted(drawn, metric, history, width, height, plain, ascii_only)}" for metric in wanted
    )


def _check_size(option: str, value: int | None, least: int) -> None:
    if value is not None and not least <= value <= MAX_SIZE:
        raise UsageError(f"{option} {value} is out of range.", f"Choose between {least} and {MAX_SIZE}.")


def _check_metric(metric: str, runs: Sequence[Run], history: History) -> None:
    """Raise UsageError if a run has no values of a metric. Each run may name its loss in its own way."""
    drawn = {layer.run.run_id for layer in layers_of([(run, "accent") for run in runs], metric, "step", history)}
    for run in runs:
        if run.run_id not in drawn:
            listed = ", ".join(clean(name) for name in sorted(history.metrics(run.run_id)))
            has = f"It has: {listed}." if listed else "It has none yet."
            raise UsageError(f"Run {clean(run.name)} has no metric {clean(metric)!r}.", has)


def _distinguished(runs: Sequence[Run]) -> list[tuple[Run, str]]:
    """Return the runs, each with the style of its curve; runs with the same name are shown by their ids."""
    times = Counter(run.name for run in runs)
    named = [run if times[run.name] == 1 else replace(run, name=run.run_id) for run in runs]
    return list(zip(named, ("accent", *HUES), strict=False))


def _plotted(
    runs: Sequence[tuple[Run, str]], metric: str, history: History, width: int, height: int, plain: bool, ascii_only: bool
) -> str:
    layers = layers_of(runs, metric, "step", history)
    start, end = span_of(layers) or (0.0, 0.0)
    curves, marks = curves_of(layers, start, end, columns_for(width), per_rank=False, smoothing=0.0)
    return draw_plot(Chart(width, height, curves, start, end, "step", marks, ascii=ascii_only, plain=plain))


def _can_draw(output: TextIO) -> bool:
    """Return whether the output can encode braille and box characters."""
    try:
        "⣿┤".encode(output.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
