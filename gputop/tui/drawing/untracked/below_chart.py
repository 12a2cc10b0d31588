"""What the processes of an untracked run show, in rows below the chart of its curve and along the same axis. Pure."""

from __future__ import annotations

from gputop.snapshot import ProcessRun
from gputop.tui.drawing.large_chart import LABEL_COLUMNS, Chart
from gputop.tui.drawing.line import Line
from gputop.tui.drawing.runs.overlay import Layer
from gputop.tui.drawing.runs.time_line import columns_of
from gputop.tui.drawing.untracked.over_time import CPU, MEMORY, THREADS, Axis, past_lines
from gputop.tui.drawing.untracked.seen import ranks_now
from gputop.tui.state.view import View

ORDER = (CPU, MEMORY, THREADS)
"""Without the utilization, which the run's screen shows for each GPU."""


def process_lines(run: ProcessRun, layer: Layer, chart: Chart, view: View, subject: int) -> list[Line]:
    """Return the rows of the run's ranks, aligned with the chart; ``subject`` counts which of ``ORDER`` every rank has."""
    label_cells = LABEL_COLUMNS + 1
    count = chart.width - label_cells
    columns = columns_of(layer, chart.x_start, chart.x_end, count) if count > 0 else None
    if columns is None:
        return []
    cursor = None if chart.cursor is None else min(count - 1, int(chart.share_of(chart.cursor) * count))
    axis = Axis(columns.times, label_cells, cursor, chart.ascii)
    return past_lines(ranks_now(run, view.snapshot), view, axis, ORDER[subject % len(ORDER)], subjects=ORDER)
