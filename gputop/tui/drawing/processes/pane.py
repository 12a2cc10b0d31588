"""The lines of the process pane. Pure."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace

from gputop import units
from gputop.process import ProcessKey
from gputop.snapshot import Device, Problem
from gputop.tui.drawing.late_lines import LateLines
from gputop.tui.drawing.line import ASCII_ELLIPSIS, ELLIPSIS, Drawing, Line, Span, clean, clip, line, text_width, wrap
from gputop.tui.drawing.processes.commands import SCROLL_CELLS, command_text, indent, scrolled_text
from gputop.tui.drawing.processes.rows import DESCENDING, Order, Row
from gputop.tui.drawing.table import Cells, Column, fitting, heading_line, row_line
from gputop.tui.state.view import View

COLUMNS = (
    Column("gpu", "GPU", 3, ">", 0),
    Column("pid", "PID", 7, ">", 0),
    Column("user", "USER", 8, "<", 4),
    Column("mem", "GPU-MEM", 9, ">", 1),
    Column("sm", "SM%", 4, ">", 2),
    Column("cpu", "CPU%", 5, ">", 6),
    Column("rss", "RSS", 6, ">", 8),
    Column("rank", "RANK", 4, ">", 3),
    Column("run", "RUN", 12, "<", 5),
    Column("time", "TIME", 6, ">", 7),
    Column("command", "COMMAND", 20, "<", 0, grows=True),
)
COMMAND_CELLS_GOOD = 40
"""Cells that a command keeps before the names of runs get more than their column's width."""


def scrolls_most(rows: Sequence[Row], width: int) -> int:
    """Return how often commands scroll to the right until the end of the longest is visible; 0: all fit as they are."""
    columns = columns_for(rows, width)
    taken = max((len(indent(row)) for row in rows), default=0)
    room = next((cells for column, cells in columns if column.key == "command"), 0) - taken
    commands = [row for row in rows if row.kind == "process"]
    longest = max((text_width(command_text(row, whole=True)) for row in commands), default=0)
    if longest <= room and all(command_text(row) == command_text(row, whole=True) for row in commands):
        return 0
    return 1 + max(0, -(-(longest - max(1, room)) // SCROLL_CELLS))


def _cells(row: Row, view: View, scrolled: int) -> Cells:
    dim, now, settings = "dim", view.snapshot.time, view.settings
    cells: dict[str, Span] = {"gpu": Span("-", dim) if row.device is None else Span(device_label(row.device), "value")}
    style = {"run": "accent", "rest": "warn", "parents": "dim"}.get(row.kind, "text")
    cells["command"] = Span(indent(row) + scrolled_text(row, scrolled, settings.ascii), style)
    cells["mem"] = _span(units.bytes_text(row.memory_bytes), row.memory_bytes)
    if row.kind in ("run", "parents") or row.devices:
        cells["gpu"] = Span("")
    if row.kind == "parents":
        del cells["mem"]
    process = row.process
    if process is None:
        return cells
    cells["pid"] = Span(str(process.pid))
    cells["user"] = Span(clean(process.user)) if process.user is not None else Span("?", dim)
    if row.use is None:
        cells["mem"] = Span("-", dim)
        cells["sm"] = Span("-", dim)
    else:
        cells["sm"] = _span(units.number(row.use.sm_utilization_percent), row.use.sm_utilization_percent)
    hidden = "?" if "cpu_percent" in process.hidden else units.UNKNOWN
    cells["cpu"] = Span(hidden, dim) if process.cpu_percent is None else Span(f"{process.cpu_percent:.0f}")
    rss = process.memory_rss_bytes
    cells["rss"] = Span(units.UNKNOWN, dim) if rss is None else Span(units.gib_or_mib(rss))
    curve = f"rank{process.rank % 8}" if process.rank is not None and settings.per_rank else "owner"
    cells["rank"] = Span("-", dim) if process.rank is None else Span(str(process.rank), curve)
    cells["run"] = Span(clean(row.run.name)) if row.run else Span("-", dim)
    since = None if process.started_at is None else max(0.0, now - process.started_at)
    cells["time"] = (
        Span("?" if "started_at" in process.hidden else units.UNKNOWN, dim) if since is None else Span(coarse(since))
    )
    return cells


def device_label(device: Device) -> str:
    """Return the text of the GPU column: the index, or for a MIG instance its number in its GPU ("6:0")."""
    first = (device.mig_label or "").partition(" ")[0] if device.kind == "mig" else ""
    return clean(first) if ":" in first else str(device.index)


def _span(text: str, value: float | None) -> Span:
    return Span(text, "dim" if value is None else "text")


def coarse(seconds: float) -> str:
    """Return a running time in at most two units; after the first minute it changes at most once a minute."""
    if 60 <= seconds < 3600:
        return f"{int(seconds // 60)}m"
    return units.duration(seconds) if seconds >= 1 else "0s"


def draw_processes(
    view: View, rows: Sequence[Row], order: Order, width: int, tagged: Set[ProcessKey] = frozenset(), scrolled: int = 0
) -> Drawing:
    """Return the pane: a heading line, then one line per row. Without rows: why there are none.

    ``scrolled`` counts steps to the right: the first shows commands with their directories, each further one leaves out
    ``SCROLL_CELLS`` cells more of their beginning.
    """
    title = _title(view, rows, order, len(tagged))
    subtitle = (
        *_order_note(order),
        *((Span(f"  commands from {(scrolled - 1) * SCROLL_CELLS}", "text"),) if scrolled > 1 else ()),
    )
    footer = _note(view)
    if not rows:
        return Drawing(title, _empty_lines(view, order, width), subtitle, footer)
    columns = columns_for(rows, width)
    ascii_only = view.settings.ascii
    heading = heading_line(columns, width, ascii_only, order.sort)
    involved = view.involved_pids

    def draw(number: int) -> Line:
        row = rows[number]
        cells = _cells(row, view, scrolled)
        return _row_line(row, columns, cells, width, ascii_only, _mark(row, involved, tagged, ascii_only))

    # Notes in full after the rows; the footer keeps their beginning visible while the list is long.
    notes = [part for note in view.snapshot.notes for part in ((), *_note_lines(note, width))]
    return Drawing(title, LateLines((heading,), len(rows), draw, notes), subtitle, footer)


def columns_for(rows: Sequence[Row], width: int) -> tuple[tuple[Column, int], ...]:
    """Return the columns that fit; the first is as wide as the longest GPU (a MIG instance's "10:3") and a mark need."""
    longest = max((len(device_label(row.device)) for row in rows if row.device is not None), default=0)
    first, *others = COLUMNS
    found = fitting((replace(first, width=max(first.width, 1 + longest)), *others), width)
    return _with_longer_runs(found, rows)


def _with_longer_runs(columns: tuple[tuple[Column, int], ...], rows: Sequence[Row]) -> tuple[tuple[Column, int], ...]:
    """Widen the column of run names as needed, while commands keep enough cells."""
    wanted = max((text_width(clean(row.run.name)) for row in rows if row.run is not None), default=0)
    cells = {column.key: size for column, size in columns}
    more = max(0, min(wanted - cells.get("run", wanted), cells["command"] - COMMAND_CELLS_GOOD))
    changes = {"run": more, "command": -more}
    return tuple((column, size + changes.get(column.key, 0)) for column, size in columns)


def _mark(row: Row, involved: Set[int], tagged: Set[ProcessKey], ascii_only: bool) -> str:
    """Return the mark before a row: of a tag, or of the doctor's first finding as in the GPU pane; "" for none."""
    if row.process is not None and row.process.key in tagged:
        return "*" if ascii_only else "●"
    return (">" if ascii_only else "▸") if row.pid in involved else ""


def _row_line(
    row: Row, columns: Sequence[tuple[Column, int]], found: Cells, width: int, ascii_only: bool, mark: str = ""
) -> Line:
    """Return a row's line; a row that is not a process uses all the space after the memory column for its text."""
    cells = dict(found)
    if mark:
        room = columns[0][1] - 1
        cells["gpu"] = Span(f"{mark}{cells['gpu'].text:>{room}}", "accent")
    if row.kind == "process":
        return row_line(columns, cells, width, ascii_only)
    keys = [column.key for column, _ in columns]
    held = columns[: keys.index("mem") + 1] if "mem" in keys else columns[:1]
    start = row_line(held, cells, width, ascii_only)
    return clip((*start, Span(" "), cells["command"]), width, ASCII_ELLIPSIS if ascii_only else ELLIPSIS)


def _pids(rows: Sequence[Row]) -> set[int]:
    return {row.pid for row in rows if row.pid is not None}


def _order_note(order: Order) -> Line:
    headings = {column.key: column.heading for column in COLUMNS}
    down = (order.sort in DESCENDING) != order.invert
    parts = [("by ", "dim"), (headings[order.sort], "text"), (" ▼" if down else " ▲", "dim")]
    if order.tree:
        parts.append((" tree", "text"))
    return line(*parts)


def _title(view: View, rows: Sequence[Row], order: Order, tagged: int) -> Line:
    """Return the pane's name, how many processes it lists, with a filter of how many, and how many are tagged."""
    shown = len(_pids(rows))
    tags = (f" · {tagged} tagged: k signals them" if tagged else "", "key")
    if not order.filter.text:
        return line(("Processes", "title"), (f" · {shown}" if rows else "", "dim"), tags)
    of = f" · {shown} of {len(view.snapshot.processes)}  "
    return line(("Processes", "title"), (of, "dim"), (f"/{clean(order.filter.text)}", "accent"), tags)


def _note(view: View) -> Line:
    """Return what cannot be seen, and why."""
    notes = view.snapshot.notes
    if notes:
        return line((clean(f"{notes[0].message} {notes[0].hint}".strip()), "warn"))
    if any(process.is_anothers for process in view.snapshot.processes):
        return line(("?: hidden by the system (another user's process)", "dim"))
    return ()


def _note_lines(note: Problem, width: int) -> list[Line]:
    return [*wrap(clean(note.message), width, "warn"), *wrap(clean(note.hint), width, "text")]


def _empty_lines(view: View, order: Order, width: int) -> tuple[Line, ...]:
    if order.filter.text and (view.snapshot.processes or view.snapshot.devices):
        return tuple(wrap(f'No process matches "{clean(order.filter.text)}". Esc clears the filter.', width, "dim"))
    if view.snapshot.notes:
        return tuple(part for note in view.snapshot.notes for part in _note_lines(note, width))
    how = " Press l to launch one." if view.remote is None else ""
    return tuple(wrap(f"No process uses a GPU, and no tracked run is alive.{how}", width, "dim"))
