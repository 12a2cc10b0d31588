"""The process table: rows from a snapshot (sorted, filtered, as a tree by run and rank), and their lines. Pure."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache

from gputop import units
from gputop.process_filter import ProcessFilter
from gputop.snapshot import Device, DeviceUse, Problem, Process, Run, Snapshot
from gputop.tui.drawing.line import ASCII_ELLIPSIS, ELLIPSIS, Drawing, Line, Span, clean, clip, line, text_width, wrap
from gputop.tui.drawing.table import Cells, Column, fitting, heading_line, row_line
from gputop.tui.state.memory_split import memory_splits
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
"""What a command keeps before the names of runs get more than their column's width."""
SORTABLE = ("gpu", "mem", "sm", "cpu", "rss", "rank", "time", "pid", "user", "run")
_DESCENDING = ("mem", "sm", "cpu", "rss", "time")


@dataclass(frozen=True, slots=True)
class Order:
    """How the table is arranged: sorted by a key of ``SORTABLE``, inverted, only rows that ``filter`` keeps, as a tree."""

    sort: str = "gpu"
    invert: bool = False
    filter: ProcessFilter = field(default_factory=ProcessFilter)
    tree: bool = False

    def next_sort(self, by: int) -> Order:
        """Return the order sorted by the next (1) or previous (-1) column."""
        place = SORTABLE.index(self.sort) if self.sort in SORTABLE else 0
        return replace(self, sort=SORTABLE[(place + by) % len(SORTABLE)])


Tag = tuple[int, float | None]
"""PID and start (wall clock) of a tagged process."""


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table.

    ``kind`` is "process" (one process on one device), "run" (a branch of the tree) or "rest" (memory that no listed process
    holds). Unknown numbers are None.
    """

    kind: str
    key: tuple[str, str]
    process: Process | None = None
    run: Run | None = None
    device: Device | None = None
    use: DeviceUse | None = None
    memory_bytes: int | None = None
    depth: int = 0

    @property
    def pid(self) -> int | None:
        """The process's PID; None for other rows."""
        return self.process.pid if self.process else None


def tag_of(process: Process) -> Tag:
    """Return what a tag remembers a process by: a later one with the same PID does not have it."""
    return process.pid, process.started_at


def process_rows(snapshot: Snapshot, order: Order) -> tuple[Row, ...]:
    """Return the rows in order: one per device that a process uses, and one for a process without a device."""
    devices = {device.uuid: device for device in snapshot.devices}
    runs = {run.run_id: run for run in snapshot.runs}
    rows = [row for process in snapshot.processes for row in _rows_of(process, devices, runs)]
    rows.extend(_unattributed(snapshot))
    rows = [row for row in rows if order.filter.keeps(row, snapshot.time)]
    rows.sort(key=_sort_key(order.sort), reverse=(order.sort in _DESCENDING) != order.invert)
    rows.sort(key=lambda row: row.kind == "rest")
    return _as_tree(rows) if order.tree else tuple(rows)


def _rows_of(process: Process, devices: Mapping[str, Device], runs: Mapping[str, Run]) -> list[Row]:
    run = runs.get(process.run_id) if process.run_id else None
    if not process.devices:
        return [Row("process", (str(process.pid), ""), process, run)]
    return [
        Row(
            "process",
            (str(process.pid), use.device_uuid),
            process,
            run,
            devices.get(use.device_uuid),
            use,
            use.memory_used_bytes,
        )
        for use in process.devices
    ]


def _unattributed(snapshot: Snapshot) -> list[Row]:
    """Return a row for each device with memory in use that neither a listed process nor the driver holds."""
    splits = memory_splits(snapshot, None)
    return [
        Row("rest", ("", device.uuid), device=device, memory_bytes=split.unlisted)
        for device in snapshot.devices
        if (split := splits.get(device.uuid)) is not None and split.unlisted
    ]


def _sort_key(key: str) -> Callable[[Row], tuple[float | str, ...]]:
    """Return a sort key function; unknown values sort as the lowest, except ranks and PIDs, which sort as the highest."""

    def value(row: Row) -> float | str:
        process = row.process
        if key in ("user", "run"):
            return ((process.user if process else None) or "") if key == "user" else (row.run.name if row.run else "")
        numbers: dict[str, float | None] = {
            "gpu": float(row.device.index) if row.device else 1e9,
            "pid": float(process.pid) if process else 1e18,
            "mem": row.memory_bytes,
            "sm": row.use.sm_utilization_percent if row.use else None,
            "cpu": process.cpu_percent if process else None,
            "rss": process.memory_rss_bytes if process else None,
            "rank": None if process is None or process.rank is None else float(process.rank),
            "time": None if process is None or process.started_at is None else -process.started_at,
        }
        number = numbers.get(key)
        if number is None:
            return 1e18 if key == "rank" else -1e18
        return number

    return lambda row: (value(row), row.device.index if row.device else -1, row.pid or 0)


def _as_tree(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Put the processes of a run below it, by rank; processes without a run come last."""
    groups: dict[str, list[Row]] = {}
    others: list[Row] = []
    for row in rows:
        if row.run is not None:
            groups.setdefault(row.run.run_id, []).append(row)
        else:
            others.append(row)
    result: list[Row] = []
    for run_id, members in groups.items():
        known = [row.memory_bytes for row in members if row.memory_bytes is not None]
        result.append(Row("run", (run_id, ""), run=members[0].run, memory_bytes=sum(known) if known else None))
        members.sort(key=lambda row: (_rank(row), row.pid or 0, row.device.index if row.device else -1))
        result.extend(replace(row, depth=1) for row in members)
    return (*result, *others)


def _rank(row: Row) -> int:
    return row.process.rank if row.process is not None and row.process.rank is not None else 10**6


def command_text(row: Row) -> str:
    """Return the text of a row's last column."""
    if row.kind == "rest":
        return "memory held by no listed process"
    if row.kind == "run":
        run = row.run
        return "" if run is None else f"{clean(run.name)} · {len(run.ranks)} rank{'s' * (len(run.ranks) != 1)} · {run.state}"
    process = row.process
    if process is None:
        return ""
    if not process.in_namespace:
        return "(other PID namespace)"
    if process.command:
        return _shown_command(process.command)
    return clean(process.name) if process.name else "?"


@lru_cache(maxsize=1024)
def _shown_command(command: tuple[str, ...]) -> str:
    return clean(" ".join(_without_directories(command)))


def _without_directories(command: Sequence[str]) -> list[str]:
    """Return a command with its program and script reduced to base names: directories would fill the column."""
    shown = list(command)
    script = next((place for place, word in enumerate(shown) if word.endswith(".py")), 0)
    for place in {0, script}:
        shown[place] = os.path.basename(shown[place]) or shown[place]
    return shown


def _cells(row: Row, now: float) -> Cells:
    dim = "dim"
    cells: dict[str, Span] = {"gpu": Span("-", dim) if row.device is None else Span(device_label(row.device), "value")}
    indent = ("└ " if row.depth else "") if row.kind == "process" else ""
    cells["command"] = Span(indent + command_text(row), {"run": "accent", "rest": "warn"}.get(row.kind, "text"))
    cells["mem"] = _span(units.bytes_text(row.memory_bytes), row.memory_bytes)
    if row.kind == "run":
        cells["gpu"] = Span("")
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
    cells["rss"] = Span(units.UNKNOWN, dim) if rss is None else Span(f"{units.gib(rss)}G")
    cells["rank"] = Span("-", dim) if process.rank is None else Span(str(process.rank), f"rank{process.rank % 8}")
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


def draw_processes(view: View, rows: Sequence[Row], order: Order, width: int, tagged: Set[Tag] = frozenset()) -> Drawing:
    """Return the pane: a heading line, then one line per row. Without rows: why there are none."""
    title = _title(view, rows, order, len(tagged))
    subtitle = _order_note(order)
    footer = _note(view)
    if not rows:
        return Drawing(title, _empty_lines(view, order, width), subtitle, footer)
    columns = columns_for(rows, width)
    ascii_only = view.settings.ascii
    heading = heading_line(columns, width, ascii_only, order.sort)
    body = [
        _row_line(row, columns, view.snapshot.time, width, ascii_only, _mark(row, view.involved_pids, tagged, ascii_only))
        for row in rows
    ]
    # Notes in full after the rows; the footer keeps their beginning visible while the list is long.
    for note in view.snapshot.notes:
        body += [(), *_note_lines(note, width)]
    return Drawing(title, (heading, *body), subtitle, footer)


def columns_for(rows: Sequence[Row], width: int) -> tuple[tuple[Column, int], ...]:
    """Return the columns that fit; the first is as wide as the longest GPU (a MIG instance's "10:3") and a mark need."""
    longest = max((len(device_label(row.device)) for row in rows if row.device is not None), default=0)
    first, *others = COLUMNS
    found = fitting((replace(first, width=max(first.width, 1 + longest)), *others), width)
    return _with_longer_runs(found, rows)


def _with_longer_runs(columns: tuple[tuple[Column, int], ...], rows: Sequence[Row]) -> tuple[tuple[Column, int], ...]:
    """Give the names of runs the cells that they need, as far as commands keep enough of theirs."""
    wanted = max((text_width(clean(row.run.name)) for row in rows if row.run is not None), default=0)
    cells = {column.key: size for column, size in columns}
    more = max(0, min(wanted - cells.get("run", wanted), cells["command"] - COMMAND_CELLS_GOOD))
    changes = {"run": more, "command": -more}
    return tuple((column, size + changes.get(column.key, 0)) for column, size in columns)


def _mark(row: Row, involved: Set[int], tagged: Set[Tag], ascii_only: bool) -> str:
    """Return the mark before a row: of a tag, or of the doctor's first finding as in the GPU pane; "" for none."""
    if row.process is not None and tag_of(row.process) in tagged:
        return "*" if ascii_only else "●"
    return (">" if ascii_only else "▸") if row.pid in involved else ""


def _row_line(
    row: Row, columns: Sequence[tuple[Column, int]], now: float, width: int, ascii_only: bool, mark: str = ""
) -> Line:
    """Return a row's line; a row that is not a process uses all the space after the memory column for its text."""
    cells = dict(_cells(row, now))
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
    down = (order.sort in _DESCENDING) != order.invert
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
    if any(process.hidden for process in view.snapshot.processes):
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
