"""The reports of Megatron's straggler detector: the slowest rank, the hottest and the one with the lowest clock. Pure."""

from __future__ import annotations

import re
from collections import Counter

from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.gpus.smi_rows import HOT_C, SLOW_SHARE, throttled
from gputop.doctor.logs.numbers.line import Line
from gputop.doctor.logs.numbers.texts import COMPUTES_LONGER

REPORTS_MIN = 2
"""At least this many reports name the same rank (our choice); each is the mean of many iterations."""
SLOWER = 1.3
"""The slowest rank takes at least this many times as long as the fastest one (our choice)."""
_VALUE = re.compile(r"\b(M[nx])(Rtt|Tmp|Clk)/Rnk: (\d{1,6}(?:\.\d{1,3})?)[A-Za-z]{1,3}/(\d{1,5})\b")
"""megatron/core/utils.py, StragglerDetector.report, since core 0.6."""


class MegatronStragglers:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first report."""
        self._slow: Counter[str] = Counter()
        self._hot: Counter[str] = Counter()
        self._last = ""

    def read(self, line: Line) -> None:
        """Take the next line."""
        if "Rtt/Rnk" not in line.text:
            return
        found = {f"{which}{what}": (float(value), rank) for which, what, value, rank in _VALUE.findall(line.text)}
        fastest, slowest = found.get("MnRtt"), found.get("MxRtt")
        if fastest is None or slowest is None or slowest[0] < SLOWER * fastest[0]:
            return
        self._slow[slowest[1]] += 1
        self._last = line.printed.strip()
        hottest, lowest, highest = found.get("MxTmp"), found.get("MnClk"), found.get("MxClk")
        if hottest is None or lowest is None or highest is None or hottest[0] < HOT_C or lowest[0] >= SLOW_SHARE * highest[0]:
            return
        if hottest[1] == lowest[1] == slowest[1]:
            self._hot[slowest[1]] += 1

    def findings(self) -> tuple[Finding, ...]:
        """Return that the rank for which the others wait is throttled by heat, or only that it computes longer."""
        evidence = Fact(self._last[:200], None, "log")
        rank, times = next(iter(self._hot.most_common(1)), ("", 0))
        if times >= REPORTS_MIN:
            stated = Fact(f"it is the slowest, the hottest and the one with the lowest clock in {times} reports", times, "log")
            return (throttled(f"of rank {rank}", (stated, evidence)),)
        rank, times = next(iter(self._slow.most_common(1)), ("", 0))
        if times <= REPORTS_MIN:
            return ()
        return (
            Finding(
                id="F02",
                severity="warning",
                confidence="likely",
                title=f"Rank {rank} {COMPUTES_LONGER.title}, and the others wait for rank {rank}",
                evidence=(Fact(f"it is the slowest one in {words.count(times, 'report')}", times, "log"), evidence),
                cause=COMPUTES_LONGER.cause,
                fix=COMPUTES_LONGER.fix,
                refuted_by=f"Another rank than {rank} is the slowest one in the rest of the run.",
            ),
        )
