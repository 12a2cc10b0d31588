"""Tables of only the slowest ranks of a step, most of which wait for the few that wait for their data. Pure.

"Top 8 slowest ranks by data time", and a row for each. A report shows the worst steps of a run: so only long stalls count.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gputop import units
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.line import Line
from gputop.doctor.logs.numbers.parts import kind_of
from gputop.doctor.logs.numbers.ranks.one_is_late import WAIT_SHARE

TABLES_MIN = 2
"""At least this many tables show it (our choice)."""
TIMES, SHARE, STALL_S = 10.0, 0.5, 10.0
"""A rank waits for this many times the median of the faster half of the table, for this share of its step, and for this long
(our choice)."""
ROWS_MIN, ROWS_MAX, TABLES_MAX = 4, 256, 1024
_TITLE = re.compile(r"(?i)\bslowest ranks?\b")
_UNIT = re.compile(r"\d ?(?P<unit>m?s)\b|[(\[_](?P<named>m?s)\b")
_TIME = re.compile(r"\d{1,7}(?:\.\d{1,6})?")


@dataclass
class _Table:
    """The times of each listed rank by the names of the columns, in units of ``unit_s`` seconds; None if none is stated."""

    unit_s: float | None
    rows: dict[int, dict[str, float]] = field(default_factory=dict)


class SlowestRanks:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first table."""
        self._tables: list[_Table] = []
        self._is_open = False

    def read(self, line: Line) -> None:
        """Take the next line."""
        if "slowest" in line.lower and _TITLE.search(line.text) is not None:
            self._is_open = len(self._tables) < TABLES_MAX
            if self._is_open:
                self._tables.append(_Table(_unit_of(line.text)))
        elif self._is_open and (rank := line.row.get("rank", "")).isdecimal():
            table = self._tables[-1]
            if len(table.rows) < ROWS_MAX:
                cells = {name: _TIME.fullmatch(cell) for name, cell in line.row.items() if name != "rank"}
                table.rows[int(rank)] = {name: float(time[0]) for name, time in cells.items() if time is not None}
                table.unit_s = table.unit_s or next(filter(None, map(_unit_of, cells)), None)
        elif self._is_open and self._tables[-1].rows:
            self._is_open = False

    def findings(self) -> tuple[Finding, ...]:
        """Return that a few ranks keep all others waiting, in at least half of the tables."""
        late = [(found, table) for table in self._tables if (found := _late(table))]
        tables = [table for table in self._tables if len(table.rows) >= ROWS_MIN]
        if len(late) < TABLES_MIN or 2 * len(late) < len(tables):
            return ()
        ranks = sorted({rank for found, _ in late for rank in found})
        always = set.intersection(*(set(found) for found, _ in late))
        who = words.ranks(ranks)
        wait = words.agree(len(ranks), "waits for its", "wait for their")
        return (
            Finding(
                id="F01",
                severity="warning",
                confidence="likely" if always else "possible",
                title=f"{who[0].upper()}{who[1:]} {wait} data, and the others wait for {words.agree(len(ranks), 'it', 'them')}",
                evidence=tuple(_fact(found, table) for found, table in late[:3]),
                cause="Each step is as slow as its slowest rank. These read from a slower disk or a storage that stalls, have "
                "fewer workers or cores, or larger samples. Ranks whose numbers follow each other share a host.",
                fix="iostat -x 5  # on the host of these ranks, or the statistics of the file system that they read from\n"
                "DataLoader(..., num_workers=8, prefetch_factor=8)  # queues bridge short stalls",
                refuted_by="These steps are few in the run, such as the first ones of an epoch.",
            ),
        )


def _unit_of(text: str) -> float | None:
    found = _UNIT.search(text)
    return None if found is None else 0.001 if (found["unit"] or found["named"]) == "ms" else 1.0


def _late(table: _Table) -> Mapping[int, tuple[float, float]]:
    """Return the time for data and that of the step, in seconds, of each rank that all others in a table wait for."""
    column = next((name for times in table.rows.values() for name in times if kind_of(name) == "data"), None)
    if column is None or table.unit_s is None or len(table.rows) < ROWS_MIN:
        return {}
    data = {rank: times.get(column, 0.0) * table.unit_s for rank, times in table.rows.items()}
    rest = {rank: (sum(times.values()) * table.unit_s) - data[rank] for rank, times in table.rows.items()}
    usual = statistics.median(sorted(data.values())[: (len(data) + 1) // 2])
    late = {
        rank: (seconds, seconds + rest[rank])
        for rank, seconds in data.items()
        if seconds >= max(STALL_S, TIMES * usual, SHARE * (seconds + rest[rank]))
    }
    others = [rest[rank] for rank in data if rank not in late]
    if not late or not others:
        return {}
    worst = max(late, key=lambda rank: data[rank])
    waits = min(others) - rest[worst] >= WAIT_SHARE * (data[worst] - usual)
    return late if waits else {}


def _fact(late: Mapping[int, tuple[float, float]], table: _Table) -> Fact:
    worst = max(late, key=lambda rank: late[rank][0])
    seconds, step = late[worst]
    text = f"rank {worst} waited {units.duration(seconds)} of {units.duration(step)} for data"
    others: Sequence[int] = [rank for rank in late if rank != worst]
    more = f"; so did {words.ranks(others)}, for {SHARE:.0%} of the step or more" if others else ""
    return Fact(f"{text}{more}; {words.count(len(table.rows) - len(late), 'other')} of the table did not", seconds, "log")
