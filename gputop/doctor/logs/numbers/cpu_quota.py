"""A container's quota of cores that throttles it, by the counters of its cgroup that lines print. Pure."""

from __future__ import annotations

import re

from gputop import units
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.line import Line

LINES_MIN = 3
"""At least this many lines print the counters (our choice)."""
POSSIBLE, LIKELY = 0.25, 0.5
"""The share of the periods in which the quota stopped the container (our choice)."""
_PERIODS, _THROTTLED = re.compile(r"\bnr_periods[\"' :=]{1,4}(\d{1,15})"), re.compile(r"\bnr_throttled[\"' :=]{1,4}(\d{1,15})")
_QUOTA = re.compile(r"\bcpu\.max[\"' :=]{1,4}(\d{1,15}) (\d{1,12})\b")


class CpuQuota:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first line."""
        self._lines = 0
        self._first: tuple[int, int] | None = None
        self._last = 0, 0
        """The periods since the container began, and in how many of them it was throttled."""
        self._cores: float | None = None

    def read(self, line: Line) -> None:
        """Take the next line."""
        if "cpu.max" in line.text and (quota := _QUOTA.search(line.text)) is not None and int(quota[2]):
            self._cores = int(quota[1]) / int(quota[2])
        if "nr_throttled" not in line.text:
            return
        periods, throttled = _PERIODS.search(line.text), _THROTTLED.search(line.text)
        if periods is not None and throttled is not None:
            self._last = int(periods[1]), int(throttled[1])
            self._first = self._first or self._last
            self._lines += 1

    def findings(self) -> tuple[Finding, ...]:
        """Return that the quota slows the run down, if it does."""
        if self._first is None or self._lines < LINES_MIN:
            return ()
        periods, throttled = (now - before for now, before in zip(self._last, self._first, strict=True))
        if periods <= 0 or throttled < POSSIBLE * periods:
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
