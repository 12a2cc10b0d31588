"""Heat rows of an untracked run: GPU utilization, GPU memory, CPU and threads of each rank along one time axis. Pure."""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from gputop import units
from gputop.history.history import History
from gputop.history.series import Series
from gputop.snapshot import Device, DeviceUse, Process, ProcessRank
from gputop.tui.drawing.gpus.over_time import Stretch
from gputop.tui.drawing.gpus.past import column_end, row_of_past
from gputop.tui.drawing.line import Line, Span, cut, fit_text, line
from gputop.tui.drawing.runs.time_line import means
from gputop.tui.drawing.untracked.seen import SeenRank
from gputop.tui.state.view import View

LABEL_CELLS = 20
"""Cells before a row on a run's own screen."""
STRETCH_LEAST_S, STRETCH_GROWS = 60.0, 1.1
"""The shortest time that the rows cover, and by how much it grows each time."""
Values = Sequence[float | None]


class Subject(NamedTuple):
    """What a row can show: its name, the name in few cells and in fewest, and how a value is written, also in few cells."""

    name: str
    word: str
    short: str
    form: Callable[[float | None], str]
    short_form: Callable[[float | None], str]


def _short_bytes(value: float | None) -> str:
    return f"{units.gib(value, 0)}G" if value is not None and value >= 10 * 2**30 else units.gib_or_mib(value)


def _count(value: float | None) -> str:
    return units.UNKNOWN if value is None else f"{value:.0f}"


UTILIZATION = Subject("utilization of its GPUs", "GPU", "GPU", units.percent, units.percent)
MEMORY = Subject("GPU memory", "GPU memory", "mem", units.bytes_text, _short_bytes)
CPU = Subject("CPU, 100% is one core", "CPU", "CPU", units.percent, units.percent)
THREADS = Subject("threads", "threads", "thr", _count, _count)
SUBJECTS = (UTILIZATION, MEMORY, CPU, THREADS)


@dataclass(frozen=True, slots=True)
class Axis:
    """The time axis of rows: the edges of its columns in seconds since the epoch, the cells before it, the column read."""

    edges: Sequence[float]
    label_cells: int = LABEL_CELLS
    cursor: int | None = None
    ascii: bool = False


@dataclass(slots=True)
class _Table:
    """The rows of the ranks, each computed once."""

    ranks: Sequence[SeenRank]
    view: View
    axis: Axis
    devices: Mapping[str, Device]
    known: dict[Subject, list[Values]] = field(default_factory=dict)
    tops: dict[Subject, float] = field(default_factory=dict)

    def rows(self, subject: Subject) -> list[Values]:
        """Return the values of each rank along the axis."""
        if subject not in self.known:
            self.known[subject] = [_past(seen, subject, self.view.history, self.axis.edges) for seen in self.ranks]
        return self.known[subject]

    def top(self, subject: Subject) -> float:
        """Return the value that fills a cell."""
        if subject not in self.tops:
            self.tops[subject] = self._top(subject)
        return self.tops[subject]

    def _top(self, subject: Subject) -> float:
        highest = max((value for row in self.rows(subject) for value in row if value is not None), default=0.0)
        if subject == UTILIZATION:
            return 100.0
        if subject == CPU:
            return max(100.0, highest)
        if subject == MEMORY:
            return max([highest, *(_memory_of(seen, self.devices) for seen in self.ranks)]) or 1.0
        return highest or 1.0

    def now(self, place: int, subject: Subject) -> float | None:
        """Return a rank's value at the cursor, else its current one, which a rank that has ended lacks."""
        if self.axis.cursor is not None:
            return self.rows(subject)[place][self.axis.cursor]
        if self.ranks[place].gone_at is not None:
            return None
        return _now(self.ranks[place], subject, self.devices)


def stretch_of(view: View, began: float | None, ended: float | None, columns: int) -> Stretch:
    """Return the time since a run began, or since this screen has watched, up to now or to its end."""
    now = view.snapshot.time if ended is None else ended
    known = [time for time in (view.history.started_at, began) if time is not None]
    seconds = _stable(now - max(known, default=now)) / max(1, columns)
    end = column_end(now, seconds)
    return Stretch(end - seconds * columns, end)


def _stable(seconds: float) -> float:
    """Round a time up, by at most a tenth, to one of a few values: otherwise, every row would change on every tick."""
    steps = math.ceil(math.log(max(1.0, seconds / STRETCH_LEAST_S)) / math.log(STRETCH_GROWS) - 1e-9)
    return STRETCH_LEAST_S * STRETCH_GROWS**steps


def edges_of(stretch: Stretch, columns: int) -> tuple[float, ...]:
    """Return the edges of equal columns."""
    return tuple(stretch.start + (stretch.end - stretch.start) * place / columns for place in range(columns + 1))


def fits(ranks: int, lines: int) -> bool:
    """Return whether all rows of all subjects fit into this many lines."""
    return len(SUBJECTS) * (ranks + (ranks > 1)) <= lines


def past_lines(
    ranks: Sequence[SeenRank],
    view: View,
    axis: Axis,
    chosen: Subject = UTILIZATION,
    *,
    subjects: Sequence[Subject] = SUBJECTS,
    room: int | None = None,
) -> list[Line]:
    """Return the rows: for each subject one per rank if they fit into ``room`` lines, else those of the ``chosen`` subject.

    The other subjects then have one row each, the mean of the ranks.
    """
    table = _Table(ranks, view, axis, {device.uuid: device for device in view.snapshot.devices})
    if len(ranks) == 1:
        return [
            _row(table, subject, 0, subject.word if axis.label_cells >= LABEL_CELLS else subject.short) for subject in subjects
        ]
    if room is not None and fits(len(ranks), room):
        return [part for subject in subjects for part in _block(table, subject, more=False)]
    folded = [_mean_row(table, subject) for subject in subjects if subject != chosen]
    return [*folded, *_block(table, chosen, more=True)] if ranks else []


def _block(table: _Table, subject: Subject, *, more: bool) -> list[Line]:
    whose = "rank" if any(seen.rank.rank is not None for seen in table.ranks) else "process"
    is_known = any(value is not None for row in table.rows(subject) for value in row)
    full = f", full at {subject.form(table.top(subject))}" if is_known else ""
    parts = [(f"{subject.name}, by {whose}{full}", "dim")]
    if more:
        parts += [("  h", "key"), (" other", "dim")]
    return [line(*parts), *(_row(table, subject, place, _label(table, place)) for place in range(len(table.ranks)))]


def _label(table: _Table, place: int) -> str:
    """Return "r3", and on a run's own screen also its GPUs; the PID of a rank without a number."""
    rank = table.ranks[place].rank
    name = _name(rank)
    if table.axis.label_cells < LABEL_CELLS:
        return name
    indices = [table.devices[uuid].index for uuid in rank.devices or () if uuid in table.devices]
    widest = max(len(_name(seen.rank)) for seen in table.ranks)
    return f"{name:<{widest}} GPU {units.ranges(indices, compact=True)}" if indices else name


def _name(rank: ProcessRank) -> str:
    return f"r{rank.rank}" if rank.rank is not None else str(rank.pid)


def _row(table: _Table, subject: Subject, place: int, label: str) -> Line:
    gone = table.ranks[place].gone_at is not None and table.axis.cursor is None
    return _drawn(table, subject, table.rows(subject)[place], label, "gone" if gone else table.now(place, subject))


def _mean_row(table: _Table, subject: Subject) -> Line:
    """Return the mean of the ranks whose value is known."""
    now = [table.now(place, subject) for place in range(len(table.ranks))]
    columns = zip(*table.rows(subject), strict=True)
    means_of = [_mean(column) for column in columns]
    wide = table.axis.label_cells >= LABEL_CELLS
    return _drawn(table, subject, means_of, f"{subject.word} mean" if wide else subject.short, _mean(now))


def _drawn(table: _Table, subject: Subject, values: Values, label: str, value: float | str | None) -> Line:
    axis, top = table.axis, table.top(subject)
    form = subject.form if axis.label_cells >= LABEL_CELLS else subject.short_form
    text = value if isinstance(value, str) else form(value)
    if len(label) + len(text) + 2 > axis.label_cells and not isinstance(value, str):
        text = subject.short_form(value)
    room = max(0, axis.label_cells - len(text) - 1)
    row = row_of_past([None if each is None else each / top for each in values], axis.ascii)
    if axis.cursor is not None:
        row = (*cut(row, 0, axis.cursor), Span("|" if axis.ascii else "│"), *cut(row, axis.cursor + 1, len(values)))
    unknown = value is None or isinstance(value, str)
    return (Span(fit_text(label, room, ellipsis=""), "owner"), Span(f"{text} ", "dim" if unknown else "value"), *row)


def _past(seen: SeenRank, subject: Subject, history: History, edges: Sequence[float]) -> Values:
    """Return a rank's values; None if one of its GPUs is unknown, and before its process began and after it ended."""
    rows = [means(series, edges) if series is not None else None for series in _series(seen, subject, history)]
    known = [row for row in rows if row is not None]
    if not known or len(known) < len(rows):
        return [None] * (len(edges) - 1)
    began = seen.process.started_at if seen.process is not None else None
    first = max(0, bisect.bisect_right(edges, began) - 1) if began is not None else 0
    end = min(len(edges) - 1, bisect.bisect_right(edges, seen.gone_at)) if seen.gone_at is not None else len(edges) - 1
    values = known[0] if len(known) == 1 else [_together(column, subject) for column in zip(*known, strict=True)]
    inside = values[first:end]
    return [*[None] * first, *inside, *[None] * (len(edges) - 1 - first - len(inside))]


def _series(seen: SeenRank, subject: Subject, history: History) -> list[Series | None]:
    process, uuids = seen.process, seen.rank.devices or ()
    if subject == UTILIZATION:
        return [history.device(uuid, "utilization_percent") for uuid in uuids]
    if process is None:
        return []
    if subject == MEMORY:
        return [history.process(process, uuid, "memory_used_bytes") for uuid in uuids]
    return [history.rank(process, "cpu_percent" if subject == CPU else "thread_count")]


def _now(seen: SeenRank, subject: Subject, devices: Mapping[str, Device]) -> float | None:
    process, uuids = seen.process, seen.rank.devices or ()
    if subject == UTILIZATION:
        return _together([devices[uuid].utilization_percent if uuid in devices else None for uuid in uuids], subject)
    if process is None:
        return None
    if subject == MEMORY:
        uses = {use.device_uuid: use for use in process.devices}
        return _together([uses.get(uuid, DeviceUse(uuid)).memory_used_bytes for uuid in uuids], subject)
    return _of_process(process, subject)


def _of_process(process: Process, subject: Subject) -> float | None:
    return process.cpu_percent if subject == CPU else process.thread_count


def _together(values: Sequence[float | None], subject: Subject) -> float | None:
    """Return the mean utilization or the sum of the memory of a rank's GPUs; None if one of them is unknown."""
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return sum(known) if subject == MEMORY else units.mean(known)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return units.mean(known) if known else None


def _memory_of(seen: SeenRank, devices: Mapping[str, Device]) -> float:
    return sum(devices[uuid].memory_total_bytes or 0 for uuid in seen.rank.devices or () if uuid in devices)
