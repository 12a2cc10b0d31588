"""The list of runs: which ones a filter keeps, their order, and their lines. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from gputop import units
from gputop.filters.runs import RunFilter, last_value
from gputop.snapshot import LIVE_STATES, Run
from gputop.tui.drawing.line import Line, Span, clean, text_width
from gputop.tui.drawing.ranks import STATE_STYLES
from gputop.tui.drawing.table import Cells, Column, fitting, heading_line, row_line

COLUMNS = (
    Column("mark", "", 1),
    Column("name", "NAME", 12, grows=True),
    Column("loss", "LOSS", 8, ">"),
    Column("tags", "TAGS", 10, "<", 1),
    Column("state", "STATE", 8, "<", 2),
    Column("took", "TOOK", 7, ">", 3),
    Column("step", "STEP", 9, ">", 4),
    Column("started", "STARTED", 12, "<", 5),
    Column("recipe", "RECIPE", 12, "<", 6),
)
_NAME_CELLS_GOOD = 20
"""Names differ at their end: up to this many cells of the longest are kept before other columns get theirs."""
_NEVER_EMPTY = ("mark", "name", "loss", "state", "took", "started")


def ordered(streamed: Iterable[Run], stored: Iterable[Run]) -> tuple[Run, ...]:
    """Return each run once, as the stream has it if it does: live ones first, then the newest."""
    runs = {run.run_id: run for run in (*stored, *streamed)}
    return tuple(sorted(runs.values(), key=lambda run: (run.state not in LIVE_STATES, -(run.created_at or 0.0), run.run_id)))


def kept(runs: Sequence[Run], wanted: RunFilter, now: float) -> tuple[Run, ...]:
    """Return the runs that a filter keeps."""
    return tuple(run for run in runs if wanted.keeps(run, now))


def run_lines(
    runs: Sequence[Run],
    columns: int,
    now: float,
    *,
    shown: str = "",
    marked: Mapping[str, str] | None = None,
    ascii_only: bool = False,
) -> tuple[Line, ...]:
    """Return a heading and one line per run.

    Args:
        runs: The runs, in order.
        columns: Cells of a line.
        now: Wall clock, for how long a live run has taken.
        shown: Id of the run on the screen.
        marked: Ids of the runs that the chart overlays -> style of their curve.
        ascii_only: Draw with ASCII characters.
    """
    styles = marked or {}
    known = {column.key for column in COLUMNS if column.key in _NEVER_EMPTY}
    known |= {"tags"} if any(run.tags for run in runs) else set()
    known |= {"recipe"} if any(run.recipe for run in runs) else set()
    known |= {"step"} if any(run.step is not None for run in runs) else set()
    fitted = fitting([_as_wide_as_needed(column, runs) for column in COLUMNS if column.key in known], columns)
    lines = [heading_line(fitted, columns, ascii_only)]
    for run in runs:
        cells = _cells(run, now, run.run_id == shown, styles.get(run.run_id), ascii_only)
        lines.append(row_line(fitted, cells, columns, ascii_only))
    return tuple(lines)


def _as_wide_as_needed(column: Column, runs: Sequence[Run]) -> Column:
    """Return a column of names or tags with the cells that the longest takes, within limits."""
    if column.key == "name":
        longest = max((text_width(clean(run.name)) for run in runs), default=0)
        return replace(column, width=min(max(column.width, longest), _NAME_CELLS_GOOD))
    if column.key == "tags":
        longest = max((text_width(_tags(run)) for run in runs), default=0)
        return replace(column, width=min(max(len(column.heading), longest), column.width))
    return column


def _tags(run: Run) -> str:
    return clean(" ".join(run.tags))


def _cells(run: Run, now: float, shown: bool, hue: str | None, ascii_only: bool) -> Cells:
    loss = last_value(run, "loss")
    state = STATE_STYLES.get(run.state, "text")
    live = run.state in LIVE_STATES
    drawn = shown or hue is not None
    loss_style = "bad" if loss is not None and not math.isfinite(loss) else "text" if drawn else "dim"
    mark = ("*" if drawn else "-") if ascii_only else ("●" if drawn else "○")
    took = None if run.created_at is None else max(0.0, (run.ended_at or now) - run.created_at)
    return {
        "mark": Span(mark, hue or ("accent" if shown else state)),
        "name": Span(clean(run.name), "value" if drawn else "text" if live else "dim"),
        "loss": Span(units.metric(loss, 3), loss_style),
        "tags": Span(_tags(run), "owner"),
        "state": Span(run.state, state),
        "took": Span(units.duration(took), "dim"),
        "step": Span(units.count(run.step), "dim"),
        "started": Span(units.clock(run.created_at, "%d %b %H:%M"), "dim"),
        "recipe": Span(clean(run.recipe or ""), "dim"),
    }
