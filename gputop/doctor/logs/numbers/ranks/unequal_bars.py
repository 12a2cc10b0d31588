"""Progress bars of several ranks, whose totals differ, and that all stop at the same count shortly before their ends. Pure."""

from __future__ import annotations

import re

from gputop import units
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.line import Line

TOTALS_MIN, SPREAD = 3, 0.01
"""This many totals, which differ by this share at most, are those of one set of data, cut into parts (our choice)."""
LEFT_TIMES = 2
"""The bars stop close to their ends: no further than this many times the difference of their totals (our choice)."""
KEPT = 256
_BAR = re.compile(r"(?<![\d/.])(\d{1,9})/(\d{1,9}) \[(\d[\d:]{3,9})<")


class UnequalBars:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first bar."""
        self._newest: list[tuple[int, int, str]] = []
        """The newest bars with one count: that, their totals and the time since they began."""

    def read(self, line: Line) -> None:
        """Take the next line."""
        if "<" not in line.text or "/" not in line.text:
            return
        for done, of, since in _BAR.findall(line.text):
            bar = int(done), int(of), since
            if self._newest and bar[0] != self._newest[-1][0]:
                self._newest = []
            if len(self._newest) < KEPT:
                self._newest.append(bar)

    def findings(self) -> tuple[Finding, ...]:
        """Return that ranks with more batches wait for one that has no more, if so."""
        totals = {of for _, of, _ in self._newest}
        if len(totals) < TOTALS_MIN or len({since for _, _, since in self._newest}) > 2:
            return ()
        done, least, most = self._newest[-1][0], min(totals), max(totals)
        if not 0 < least - done <= LEFT_TIMES * (most - least) or most - least > SPREAD * most:
            return ()
        number, count = len(self._newest), units.count
        return (
            Finding(
                id="C07",
                severity="error",
                confidence="likely",
                title=f"{number} bars stop at {count(done)} of {count(least)} to {count(most)}: the ranks have unequal batches",
                evidence=(Fact(f"{number} bars with {len(totals)} totals stop at the same count", done, "log"),),
                cause="The ranks have different numbers of batches. One that has no more leaves the loop, and the others wait "
                "for it in the next collective operation.",
                fix="# the same number on each rank: DistributedSampler, drop_last=True, or Accelerate's even_batches=True\n"
                "with model.join(): ...  # DDP alone: ranks without data answer the others; an IterableDataset: stop together",
                refuted_by="The log was copied while the run went on.",
            ),
        )
