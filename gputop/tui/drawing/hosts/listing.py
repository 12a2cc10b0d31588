"""The list of hosts: a heading, and a row for each host, in two or three columns where there are many. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gputop import units
from gputop.tui.drawing.bars import sparkline
from gputop.tui.drawing.hosts.row import GpuUse, HostRow, Level
from gputop.tui.drawing.line import Line, Span, clean, clip, fit, joined, line, text_width
from gputop.tui.drawing.table import Column, fitting, heading_line

HOST_CELLS_MIN, HOST_CELLS_MAX = 8, 24
STRIP_CELLS_MAX = 32
"""With more GPUs than this, several share a cell of the strip."""
BESIDE_CELLS_MIN = 64
"""Hosts share a line only if each has this many cells."""
GAP = "  "
STATE_STYLES: dict[Level, str] = {
    "lost": "bad",
    "error": "text",
    "late": "warn",
    "warning": "text",
    "idle": "text",
    "connecting": "dim",
    "fine": "text",
}
STATE_CELLS = 17
"""Room for "unknown host key", and for "link lost 12m05s": the columns do not move while an age grows."""
RUN_CELLS_MIN, RUN_CELLS_MAX = 16, 28
_ROOMY_FROM = 110
"""From this many cells on, the names of runs are not cut to ``RUN_CELLS_MIN``."""
_WIDE_FROM = 150
"""From this many cells on, states are not cut and each GPU of the strip may take two cells."""


class Grid(NamedTuple):
    """The layout of the list: ``beside`` hosts in each line, each ``cells`` wide in these columns, with ``strip`` cells for the
    GPUs."""

    beside: int
    cells: int
    columns: tuple[tuple[Column, int], ...]


def grid_of(rows: Sequence[HostRow], width: int, lines: int) -> Grid:
    """Return a layout for ``width`` cells that fits the hosts into ``lines``, if one does."""
    beside = 1
    while beside * lines < len(rows) and (width + len(GAP)) // (beside + 1) - len(GAP) >= BESIDE_CELLS_MIN:
        beside += 1
    cells = (width - len(GAP) * (beside - 1)) // beside
    host = max((text_width(clean(row.host)) for row in rows), default=0)
    state = max((text_width(row.state) for row in rows), default=0)
    run = max((text_width(f"{row.run} {row.ranks}") for row in rows), default=0) if cells >= _ROOMY_FROM else 0
    most = max((len(row.gpus) for row in rows), default=0)
    strip = min(STRIP_CELLS_MAX, most * (2 if cells >= _WIDE_FROM and most <= STRIP_CELLS_MAX // 4 else 1))
    columns = (
        Column("host", "HOST", min(HOST_CELLS_MAX, max(HOST_CELLS_MIN, host))),
        Column("state", "STATE", max(STATE_CELLS, state) if cells >= _WIDE_FROM else STATE_CELLS, priority=2),
        Column("gpus", "GPUS", 5, ">"),
        Column("strip", "USE", max(3, strip), priority=1),
        Column("memory", "MEMORY", 10, ">", priority=6),
        Column("run", "RUN", min(RUN_CELLS_MAX, max(RUN_CELLS_MIN, run)), priority=4),
        Column("loss", "LOSS", 9, ">", priority=5),
        Column("finding", "FINDING", 14, priority=3, grows=True),
    )
    return Grid(beside, cells, fitting(columns, cells))


def heading(grid: Grid, width: int, ascii_only: bool) -> Line:
    """Return the headings, once for each host of a line."""
    one = fit(heading_line(grid.columns, grid.cells, ascii_only), grid.cells)
    return clip(joined([one] * grid.beside, Span(GAP)), width)


class DrawnRows:
    """Draws rows, each again only when it has changed: a key that moves the cursor must not wait for a hundred hosts."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, bool], tuple[HostRow, Grid, bool, Line]] = {}

    def lines(self, rows: Sequence[HostRow], grid: Grid, chosen: str | None, width: int, ascii_only: bool) -> tuple[Line, ...]:
        """Return the hosts in lines, one after another; the chosen one under the cursor."""
        cells = [self._row(row, grid, row.host == chosen, ascii_only) for row in rows]
        if grid.beside == 1:
            return tuple(cells)
        return tuple(
            clip(joined(cells[start : start + grid.beside], Span(GAP)), width) for start in range(0, len(cells), grid.beside)
        )

    def _row(self, row: HostRow, grid: Grid, under_cursor: bool, ascii_only: bool) -> Line:
        key = row.host, under_cursor
        known = self._known.get(key)
        if known is None or known[0] is not row or known[1:3] != (grid, ascii_only):
            known = self._known[key] = row, grid, ascii_only, _row(row, grid, under_cursor, ascii_only)
        return known[3]


def strip(gpus: Sequence[GpuUse], cells: int, ascii_only: bool) -> Line:
    """Return the GPUs side by side, each as high as its use; GPUs share a cell if there are more GPUs than cells."""
    if not gpus or cells <= 0:
        return ()
    share, wide = -(-len(gpus) // cells), max(1, cells // len(gpus))
    drawn: list[Span] = []
    for start in range(0, len(gpus), share):
        cell = _cell(gpus[start : start + share], wide, ascii_only)
        if drawn and drawn[-1].style == cell.style:
            cell = Span(drawn.pop().text + cell.text, cell.style)
        drawn.append(cell)
    return tuple(drawn)


def _cell(group: Sequence[GpuUse], wide: int, ascii_only: bool) -> Span:
    if any(gpu.broken for gpu in group):
        return Span(("x" if ascii_only else "✗") * wide, "bad")
    known = [gpu.percent for gpu in group if gpu.percent is not None]
    if not known:
        return Span("?" * wide, "dim")
    least = min(known)  # of several GPUs in one cell, the idlest matters
    style = "dim" if all(gpu.idles for gpu in group) else f"work{min(3, int(max(0.0, least) / 25))}"
    return Span(sparkline([least], ascii_only=ascii_only) * wide, style)


def _row(row: HostRow, grid: Grid, under_cursor: bool, ascii_only: bool) -> Line:
    spans: list[Span] = []
    for column, cells in grid.columns:
        held = fit(_cell_of(row, column.key, cells, ascii_only), cells)
        if column.align == ">":
            held = _right(held)
        spans += [*((Span(" "),) if spans else ()), *held]
    whole = fit(tuple(spans), grid.cells)
    return tuple(Span(text, f"{style} cursor") for text, style in whole) if under_cursor else whole


def _right(held: Line) -> Line:
    """Return the cells with their padding in front."""
    last = held[-1]
    return (last, *held[:-1]) if len(held) > 1 and not last.text.strip() else held


def _cell_of(row: HostRow, key: str, cells: int, ascii_only: bool) -> Line:
    if key == "host":
        return clip(line((clean(row.host), "bad" if row.level in ("lost", "error") else "value")), cells)
    if key == "state":
        return clip(line((row.state, STATE_STYLES[row.level])), cells)
    if key == "gpus":
        if not row.gpus:
            return line((units.UNKNOWN if row.level in ("lost", "connecting") else "0", "dim"))
        style = "dim" if not row.is_current or not row.working else "ok" if row.working == len(row.gpus) else "text"
        return line((f"{row.working}/{len(row.gpus)}", style))
    if key == "strip":
        drawn = strip(row.gpus, cells, ascii_only)
        return drawn if row.is_current else tuple(Span(text, "dim") for text, _ in drawn)
    if key == "memory":
        return line((_memory(row), "text" if row.memory_used_bytes is not None and row.is_current else "dim"))
    if key == "run":
        ranks = f" {row.ranks}" if row.ranks else ""
        return (*clip(line((row.run, "text")), max(0, cells - len(ranks))), Span(ranks, "owner")) if row.run else ()
    if key == "loss":
        return line((row.loss, "bad" if row.loss_lost else "value"))
    found = row.finding
    if found is None or (row.said and found.severity != "error"):
        return clip(line((row.said, "text")), cells)
    more = f" (+{row.more})" if row.more else ""
    style = "bad" if found.severity == "error" else "warn"
    return (*clip(line((clean(found.title), style)), max(0, cells - len(more))), Span(more, "dim"))


def _memory(row: HostRow) -> str:
    if row.memory_used_bytes is None or row.memory_total_bytes is None:
        return units.UNKNOWN
    return f"{units.gib(row.memory_used_bytes, 0)}/{units.gib(row.memory_total_bytes, 0)}G"
