"""A chart as text for a terminal or a log, drawn by plotext: for a plot requested once.

Importing this module does not import plotext; the first plot does (about 50 ms). plotext has one figure for the whole process,
so each plot sets everything that it depends on. ``braille`` draws live charts, in about a seventh of the time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from gputop.tui.drawing.large_chart import LABEL_COLUMNS, Chart, Scale, legend, problem_of, scale_of
from gputop.tui.drawing.line import Line, plain

_COLORS = {
    "dim": 8,
    "track": 8,
    "bad": 9,
    "accent": 14,
    "rank0": 6,
    "rank1": 3,
    "rank2": 2,
    "rank3": 5,
    "rank4": 4,
    "rank5": 14,
    "rank6": 13,
    "rank7": 7,
}
"""Style -> terminal color, 0 to 15; other styles use the terminal's default."""
_ASCII_FRAME = str.maketrans("┌┐└┘─│┤├┬┴┼", "++++-|+++++")
_SEQUENCE = re.compile(r"\x1b\[[0-9;]*m")


def plot(chart: Chart) -> str:
    """Return the legend and the plot: ``height`` + 1 lines of text, in color unless the chart is ``plain`` or ``ascii``.

    If there is nothing to draw, return one line that says why.
    """
    problem = problem_of(chart)
    if problem is not None:
        return problem.text
    color = not (chart.plain or chart.ascii)
    text = _plotted(chart, scale_of(chart))
    if not color:
        text = _SEQUENCE.sub("", text)
    if chart.ascii:
        text = text.translate(_ASCII_FRAME)
    rows = [row.rstrip() for row in text.rstrip("\n").split("\n")]
    return "\n".join([_legend_text(legend(chart), color), *rows])


def _plotted(chart: Chart, scale: Scale) -> str:
    import plotext

    letters = chart.ascii or chart.plain
    plotext.clear_figure()
    plotext.theme("clear")
    plotext.limit_size(False, False)  # else plotext shrinks the plot to the size of the detected terminal
    plotext.plot_size(chart.width, chart.height)
    plotext.xaxes(True, False)
    plotext.yaxes(True, False)
    plotext.xlim(scale.start, scale.end)
    plotext.ylim(scale.low, scale.high)
    for style, marker, points in _lines(chart):
        xs, ys = [x for x, _ in points], [min(max(y, scale.low), scale.high) for _, y in points]
        plotext.plot(xs, ys, marker=marker if letters else "braille", color=_COLORS[style])
    if chart.marks:
        bottom = [scale.low] * len(chart.marks)
        plotext.scatter(list(chart.marks), bottom, marker="x" if chart.ascii else "×", color=_COLORS["bad"])
    plotext.yticks([place for place, _ in scale.y_ticks], [text.rjust(LABEL_COLUMNS) for _, text in scale.y_ticks])
    plotext.xticks([place for place, _ in scale.x_ticks], [text for _, text in scale.x_ticks])
    return str(plotext.build())


def _lines(chart: Chart) -> Iterator[tuple[str, str, list[tuple[float, float]]]]:
    """Yield the style, marker and points of each line to draw, in the scale of the y axis, the topmost last."""
    for curve in chart.curves:
        spread = curve.spread
        if spread.solid:
            # Through the smallest and the largest value of each column: no spike is lost.
            points = [(x, y) for x, low, high in spread.points for y in ((low, high) if low < high else (low,))]
        else:
            points = list(curve.points)
            for end in (1, 2):
                yield from _line("dim", ".", [(point[0], point[end]) for point in spread.points], chart.log)
        yield from _line(curve.style, curve.marker, points, chart.log)


def _line(
    style: str, marker: str, points: list[tuple[float, float]], log: bool
) -> Iterator[tuple[str, str, list[tuple[float, float]]]]:
    if log:
        points = [(x, math.log10(y)) for x, y in points if y > 0]
    if points:
        yield style, marker, points


def _legend_text(named: Line, color: bool) -> str:
    if not color:
        return plain(named).rstrip()
    return "".join(f"\x1b[38;5;{_COLORS[style]}m{text}\x1b[0m" if style in _COLORS else text for text, style in named).rstrip()
