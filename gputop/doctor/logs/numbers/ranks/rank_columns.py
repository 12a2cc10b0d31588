"""Tables with a column for each rank: one whose loss grows, or that computes longer than the others. Pure."""

from __future__ import annotations

import re
import statistics
from collections.abc import Sequence

from gputop import units
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.line import Line
from gputop.doctor.logs.numbers.ranks.one_is_late import WORK_TIMES
from gputop.doctor.logs.numbers.ranks.rank_losses import one_grows
from gputop.doctor.logs.numbers.texts import COMPUTES_LONGER

ROWS_MIN, KEPT = 8, 10_000
"""The fewest rows to judge (our choice), and the most that are kept."""
SLOW_SHARE = 0.9
"""The slow rank is the slowest in at least this share of the rows (our choice)."""
_HEADED = re.compile(r"(?i)(?<![a-z])rank[ _]?(\d{1,4})(?:[ _]([a-z]\w{0,20}))?(?=\s{2,}|\t|\||$)")
_SYSLOG = re.compile(r"^[A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d \S{1,60} \S{1,60}: ")
_GAP = re.compile(r"\s{2,}|\t|\|")
_LOSS = re.compile(r"(?i)loss|nll|ce|mse|mae|err")
_TIME = re.compile(r"(?i)\bm?s\b|milliseconds|seconds")


class RankColumns:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the heading."""
        self._ranks: dict[int, int] = {}
        """The place of each rank's column."""
        self._columns = 0
        self._are_losses = self._are_times = False
        self._values: dict[int, list[float]] = {}

    def read(self, line: Line) -> None:
        """Take the next line."""
        text = line.text
        if "rank" in line.lower:
            self._read_heading(_SYSLOG.sub("", text))
        elif self._ranks:
            cells = _SYSLOG.sub("", text).replace("|", " ").split()
            if len(cells) == self._columns:
                self._take(cells)
        elif _TIME.search(text) is not None and "column" in line.lower:
            self._are_times = True

    def _read_heading(self, text: str) -> None:
        headed = list(_HEADED.finditer(text))
        if len({int(found[1]) for found in headed}) < max(2, len(headed)):
            return
        cells = [cell for cell in map(str.strip, _GAP.split(text.strip())) if cell]
        places = {cell: place for place, cell in enumerate(cells)}
        ranks = {int(found[1]): places.get(found[0].strip(), -1) for found in headed}
        if -1 in ranks.values():
            return
        self._ranks, self._columns = ranks, len(cells)
        self._values = {rank: [] for rank in ranks}
        self._are_losses = all(found[2] is not None and _LOSS.search(found[2]) for found in headed)
        self._are_times = self._are_times or _TIME.search(text) is not None

    def _take(self, cells: Sequence[str]) -> None:
        try:
            row = {rank: float(cells[place]) for rank, place in self._ranks.items()}
        except ValueError:
            return
        for rank, value in row.items():
            if len(self._values[rank]) < KEPT:
                self._values[rank].append(value)

    def findings(self) -> tuple[Finding, ...]:
        """Return what one of the columns does, and no other one."""
        if not self._values or len(next(iter(self._values.values()))) < ROWS_MIN:
            return ()
        found = one_grows(self._values) if self._are_losses else self._slow() if self._are_times else None
        return () if found is None else (found,)

    def _slow(self) -> Finding | None:
        rows = list(zip(*self._values.values(), strict=True))
        ranks = list(self._values)
        slowest = [ranks[row.index(max(row))] for row in rows]
        late = statistics.mode(slowest)
        others = statistics.median(statistics.median(each) for rank, each in self._values.items() if rank != late)
        takes = statistics.median(self._values[late])
        if slowest.count(late) < SLOW_SHARE * len(rows) or takes <= 0 or takes < WORK_TIMES * others:
            return None
        return Finding(
            id="F02",
            severity="warning",
            confidence="likely",
            title=f"Rank {late} {COMPUTES_LONGER.title}, and the others wait for rank {late}",
            evidence=(
                Fact(f"rank {late} usually takes {units.metric(takes)}", takes, "log"),
                Fact(f"the others take {units.metric(others)}", others, "log"),
            ),
            cause=COMPUTES_LONGER.cause,
            fix=COMPUTES_LONGER.fix,
            refuted_by=f"Another rank than {late} takes as long in the rest of the run.",
        )
