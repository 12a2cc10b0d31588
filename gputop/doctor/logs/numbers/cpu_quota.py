"""A container's quota of cores that throttles it, by the counters of its cgroup that lines print. Pure."""

from __future__ import annotations

import re

from gputop import units
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.line import Line

LINES_MIN = 3
"""At least this many lines print the counters (our choice)."""
BETWEEN_MIN = 100
"""At least this many periods, ten seconds, are between the first and the last (our choice)."""
PERIODS_MIN = 3000
"""Counters that are printed once are enough after this many periods, five minutes (our choice)."""
POSSIBLE, LIKELY = 0.25, 0.5
"""The share of the periods in which the quota stopped the container (our choice)."""
_PERIODS, _THROTTLED = re.compile(r"\bnr_periods[\"' :=]{1,4}(\d{1,15})"), re.compile(r"\bnr_throttled[\"' :=]{1,4}(\d{1,15})")
_QUOTA = re.compile(r"\bcpu\.max[\"' :=]{1,4}(\d{1,15}) (\d{1,12})\b")


class CpuQuota:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first line."""
        self._lines = self._periods = 0
        self._first: tuple[int, int] | None = None
        self._last = 0, 0
        """The periods since the container began, and in how many of them it was throttled."""
        self._cores: float | None = None

    def read(self, line: Line) -> None:
        """Take the next line."""
        if "cpu.max" in line.text and (quota := _QUOTA.search(line.text)) is not None and int(quota[2]):
            self._cores = int(quota[1]) / int(quota[2])
        if "nr_" not in line.text:
            return
        periods, throttled = _PERIODS.search(line.text), _THROTTLED.search(line.text)
        self._periods = int(periods[1]) if periods is not None else self._periods
        if throttled is not None and self._periods:
            now = self._periods, int(throttled[1])
            if now[0] < self._last[0] or now[1] < self._last[1]:  # another container's
                self._first, self._lines = None, 0
            self._last = now
            self._first = self._first or now
            self._lines += 1
            self._periods = 0

    def findings(self) -> tuple[Finding, ...]:
        """Return that the quota slows the run down, if it does."""
        if self._first is None or (self._lines < LINES_MIN and self._last[0] < PERIODS_MIN):
            return ()
        begun = self._first if self._lines >= LINES_MIN else (0, 0)
        periods, throttled = (now - before for now, before in zip(self._last, begun, strict=True))
        if periods < BETWEEN_MIN or not POSSIBLE * periods <= throttled <= periods:
            return ()
        share = throttled / periods
        of = f" of {units.metric(self._cores)} cores" if self._cores is not None else ""
        return (
            Finding(
                id="D02",
                severity="warning",
                confidence="likely" if share >= LIKELY else "possible",
                title=f"The container's quota{of} stops it in {share:.0%} of the periods",
                evidence=(Fact(f"nr_throttled: {units.count(throttled)} of {units.count(periods)} periods", throttled, "log"),),
                cause="The ranks, their loader workers and their threads together use more cores than the container may: all "
                "of them are stopped until the next period. What counts the cores of the machine starts too many workers.",
                fix="# in the pod: resources.limits.cpu: as many cores as workers and ranks; in docker: --cpus=...\n"
                "DataLoader(..., num_workers=len(os.sched_getaffinity(0)) // ranks)  # or fewer, if the quota must stay",
                refuted_by="The GPU never waits for data.",
            ),
        )
