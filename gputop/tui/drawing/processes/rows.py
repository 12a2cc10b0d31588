"""The rows of the process table: from a snapshot, sorted, filtered, and as a tree by run, launcher and rank. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gputop.filters.processes import ProcessFilter
from gputop.process import Ancestor
from gputop.snapshot import Device, DeviceUse, Process, Run, Snapshot
from gputop.tui.state.memory_split import memory_splits

SORTABLE = ("gpu", "mem", "sm", "cpu", "rss", "rank", "time", "pid", "user", "run")
DESCENDING = ("mem", "sm", "cpu", "rss", "time")
REST_ROWS_MAX = 2
"""With more, memory that no listed process holds is one row."""


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


class Row(NamedTuple):
    """One row of the table; a tuple, because hundreds are made for each snapshot.

    ``kind`` is "process" (one process on one device), "run" or "parents" (branches of the tree: a run, and what started the
    processes below, nearest first), or "rest" (memory that no listed process holds). Unknown numbers are None.
    """

    kind: str
    key: tuple[str, str]
    process: Process | None = None
    run: Run | None = None
    device: Device | None = None
    use: DeviceUse | None = None
    memory_bytes: int | None = None
    depth: int = 0
    parents: tuple[Ancestor, ...] = ()
    devices: tuple[Device, ...] = ()
    """All of them, if memory on several devices is one row; ``device`` is the first."""

    @property
    def pid(self) -> int | None:
        """The process's PID; None for other rows."""
        return self.process.pid if self.process else None


def process_rows(snapshot: Snapshot, order: Order) -> tuple[Row, ...]:
    """Return the rows in order: one per device that a process uses, and one for a process without a device."""
    devices = {device.uuid: device for device in snapshot.devices}
    runs = {run.run_id: run for run in snapshot.runs}
    rows = [row for process in snapshot.processes for row in _rows_of(process, devices, runs)]
    rows.extend(_unattributed(snapshot))
    if order.filter.conditions:
        rows = [row for row in rows if order.filter.keeps(row, snapshot.time)]
    rows.sort(key=_sort_key(order.sort), reverse=(order.sort in DESCENDING) != order.invert)
    rows.sort(key=lambda row: row.kind == "rest")
    rows = _with_one_rest(rows)
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


def _with_one_rest(rows: list[Row]) -> list[Row]:
    """Return the rows with one instead of many that say the same of each GPU, as in a container that sees no other process."""
    rest = [row for row in rows if row.kind == "rest" and row.device is not None and row.device.kind != "mig"]
    if len(rest) <= REST_ROWS_MAX:
        return rows
    devices = sorted((row.device for row in rest if row.device is not None), key=lambda device: device.index)
    held = sum(row.memory_bytes or 0 for row in rest)
    one = Row("rest", ("", "rest"), device=devices[0], memory_bytes=held, devices=tuple(devices))
    return [*(row for row in rows if row not in rest), one]


_NUMBERS: dict[str, Callable[[Row, Process | None], float | None]] = {
    "gpu": lambda row, _: float(row.device.index) if row.device else 1e9,
    "pid": lambda _, process: float(process.pid) if process else 1e18,
    "mem": lambda row, _: row.memory_bytes,
    "sm": lambda row, _: row.use.sm_utilization_percent if row.use else None,
    "cpu": lambda _, process: process.cpu_percent if process else None,
    "rss": lambda _, process: process.memory_rss_bytes if process else None,
    "rank": lambda _, process: None if process is None or process.rank is None else float(process.rank),
    "time": lambda _, process: None if process is None or process.started_at is None else -process.started_at,
}
"""What rows are sorted by, if it is a number."""


def _sort_key(key: str) -> Callable[[Row], tuple[float | str, ...]]:
    """Return a sort key function; unknown values sort as the lowest, except ranks and PIDs, which sort as the highest."""

    read, unknown = _NUMBERS.get(key), 1e18 if key == "rank" else -1e18

    def value(row: Row) -> float | str:
        process = row.process
        if key in ("user", "run"):
            return ((process.user if process else None) or "") if key == "user" else (row.run.name if row.run else "")
        number = read(row, process) if read is not None else None
        return unknown if number is None else number

    return lambda row: (value(row), row.device.index if row.device else -1, row.pid or 0)


def _as_tree(rows: Sequence[Row]) -> tuple[Row, ...]:
    """Put the processes of a run below it, by rank, and each below what started it; processes without a run come last."""
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
        result.extend(_below_parents(members, 1, run_id))
    return (*result, *_below_parents(others, 0, ""))


def _below_parents(rows: Sequence[Row], depth: int, key: str) -> list[Row]:
    """Return the rows below one for their launcher, else their parent; rows whose parents are not known come last."""
    groups: dict[tuple[Ancestor, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(_parents(row), []).append(row)
    result: list[Row] = []
    for parents, members in sorted(groups.items(), key=lambda group: not group[0]):
        if parents:
            result.append(Row("parents", (key, f"below {parents[0].pid}"), depth=depth, parents=parents))
        result.extend(row._replace(depth=depth + bool(parents)) for row in members)
    return result


def _parents(row: Row) -> tuple[Ancestor, ...]:
    """Return the chain from what launched a process up to init; without a launcher, from its parent."""
    if row.process is None:
        return ()
    chain, launcher = row.process.ancestors, row.process.launcher
    start = next((place for place, one in enumerate(chain) if launcher is not None and one.pid == launcher.pid), 0)
    return chain[start:] or (() if launcher is None else (launcher,))


def _rank(row: Row) -> int:
    return row.process.rank if row.process is not None and row.process.rank is not None else 10**6
