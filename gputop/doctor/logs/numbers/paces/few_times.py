"""A run that becomes slower with each of a few reports, by when the lines were written. Pure.

A handful of reports says little of a pace, unless each step takes many times as long as at first.
"""

from __future__ import annotations

import itertools
import re
from typing import NamedTuple

from gputop import units
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.after import position_of
from gputop.doctor.logs.numbers.line import Line
from gputop.doctor.logs.numbers.step_parts import MEASURED

REPORTS_MIN, REPORTS_MAX = 4, 15
"""With more reports, the rates between them are judged like any others (E10)."""
GROWTH = 8.0
"""Between the last two reports, a step takes at least this many times as long as between the first two (our choice)."""
EACH = 1.5
"""Between any two, it takes at least this many times as long as between the two before (our choice)."""
FIRST_MIN_S = 5.0
"""The times may be whole seconds."""
_OTHER_WORK = re.compile(
    r"eval|valid|\btest|sav(?:e|ing)|checkpoint|stage|phase|resum|restor|load|resol|length|episod|reward|return|roll"
)
"""What may take the time between two reports, or make each step longer."""


class _Report(NamedTuple):
    at: float
    epoch: int | None
    step: int


class FewTimes:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first line."""
        self._reports: list[_Report] = []
        self._is_other = False

    def read(self, line: Line) -> None:
        """Take the next line."""
        if self._is_other or len(self._reports) > REPORTS_MAX or (line.speaker is not None and line.speaker.rank):
            return
        self._is_other = bool(self._reports) and _OTHER_WORK.search(line.lower) is not None
        position = position_of(line.text) if MEASURED.search(line.text) is not None else None
        if position is None or position[1] is None:
            return
        if line.at is None:
            self._is_other = True
        else:
            self._reports.append(_Report(line.at, position[0], position[1]))

    def findings(self) -> tuple[Finding, ...]:
        """Return that the run slows down if each report shows it."""
        reports = self._reports
        if self._is_other or not REPORTS_MIN <= len(reports) <= REPORTS_MAX or len({report.epoch for report in reports}) > 1:
            return ()
        pairs = list(itertools.pairwise(reports))
        if any(before.step >= after.step or before.at >= after.at for before, after in pairs):
            return ()
        times = [(after.at - before.at) / (after.step - before.step) for before, after in pairs]
        grows = all(later >= EACH * earlier for earlier, later in itertools.pairwise(times))
        growth = times[-1] / times[0]
        if not grows or growth < GROWTH or reports[1].at - reports[0].at < FIRST_MIN_S:
            return ()
        return (
            Finding(
                id="E10",
                severity="warning",
                confidence="possible",
                title=f"The run slows down: a step takes {growth:.1f} times as long as at the beginning",
                evidence=(
                    Fact(
                        f"{units.duration(times[0])} for each step until step {units.count(reports[1].step)}, "
                        f"{units.duration(times[-1])} until step {units.count(reports[-1].step)}",
                        round(growth, 2),
                        "log",
                    ),
                    Fact(f"longer with each of {words.count(len(reports), 'report')}", len(reports), "log"),
                ),
                cause="Something grows with the steps: a list that keeps every loss or output, a graph that is never "
                "detached, hooks that are registered again, memory that begins to swap. Or the samples get longer.",
                fix="history.append(loss.item())  # numbers, not tensors\nfree -h; top  # does it swap? what else runs?",
                refuted_by="The work of a step grows on purpose, or another program used the machine for some time.",
            ),
        )
