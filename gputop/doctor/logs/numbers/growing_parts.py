"""A part of each iteration that takes longer and longer while others do not: by the times that its lines print. Pure."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence

from gputop import units
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.line import Line
from gputop.doctor.logs.numbers.parts import kind_of
from gputop.tracking.printed.names import ANY_MEASURED

VALUES_MIN = 12
"""The fewest times of a part to judge (our choice)."""
GROWN = 2.0
"""The last quarter of them takes at least this many times the first (our choice)."""
SURE_GROWN = 3.0
"""This many times for a likely finding, unless the part plays: episodes become longer as an agent learns (our choice)."""
EVENLY = 0.15
"""Each quarter adds this share of the growth: what was slow once, or only at first, is something else (our choice)."""
STAYS = 1.3
"""Another part grows to less than this many times itself: then the iterations do as much as before (our choice)."""
SHARE = 0.2
"""At the end, it takes at least this share of all parts (our choice)."""
PARTS_MAX, KEPT = 64, 10_000
_MAY_GROW = re.compile(r"sampl|gener|collect|play|episode|env|act|sim|roll|search|arena|explor")
_MEANT_TO_GROW = (
    "rollout",
    "horizon",
    "unroll",
    "context",
    "seq_len",
    "curriculum",
    "eta",
    "elapsed",
    "since",
    "total",
    "wall",
)
"""Samples that grow by a schedule, and times since the start."""


class GrowingParts:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first line."""
        self._parts: dict[str, list[float]] = {}
        self._trained = 0

    def read(self, line: Line) -> None:
        """Take the next line."""
        if line.is_of_evaluation or (line.speaker is not None and line.speaker.rank):
            return
        self._trained += self._trained < VALUES_MIN and ANY_MEASURED.search(line.text) is not None
        if len(line.parts) < 2:
            return
        for name, seconds in line.parts.items():
            if kind_of(name) == "whole" or any(word in name for word in _MEANT_TO_GROW):
                continue
            if name in self._parts or len(self._parts) < PARTS_MAX:
                times = self._parts.setdefault(name, [])
                if len(times) < KEPT:
                    times.append(seconds)

    def findings(self) -> tuple[Finding, ...]:
        """Return the part that grows the most, if one grows all the time and another one does not."""
        usual = {name: _quarters(times) for name, times in self._parts.items() if len(times) >= VALUES_MIN}
        grown = {name: quarters for name, quarters in usual.items() if _grows(quarters)}
        stay = [name for name, quarters in usual.items() if 0 < quarters[-1] < STAYS * quarters[0]]
        if not grown or not stay:
            return ()
        name = max(grown, key=lambda each: grown[each][-1])
        first, last = grown[name][0], grown[name][-1]
        if last < SHARE * sum(quarters[-1] for quarters in usual.values()):
            return ()
        times = len(self._parts[name])
        return (
            Finding(
                id="E10",
                severity="warning",
                confidence="likely" if last >= SURE_GROWN * first and not _MAY_GROW.search(name) else "possible",
                title=f"{name} takes ever longer: {last / first:.1f} times as long as at first",
                evidence=(
                    Fact(
                        f"{units.metric(first)} at first, {units.metric(last)} now, by {words.count(times, 'line')}",
                        round(last / first, 2),
                        "log",
                    ),
                    Fact(
                        f"{', '.join(sorted(stay)[:3])} {words.agree(len(stay), 'takes', 'take')} as long as before",
                        None,
                        "log",
                    ),
                ),
                cause="Something that each iteration goes through grows: a list of all results so far, a file that is read "
                "again in full, a cache without a limit, hooks or metrics that are added again and again.",
                fix="metric.reset()  # after each report; keep sums instead of lists\n"
                "py-spy record -o profile.svg -d 60 --pid PID  # the line that takes the time",
                refuted_by="The iterations are meant to do more and more: longer samples, a larger replay memory.",
            ),
        )


def _quarters(times: Sequence[float]) -> list[float]:
    cuts = [len(times) * part // 4 for part in range(5)]
    return [units.mean(times[begin:end]) for begin, end in itertools.pairwise(cuts)]


def _grows(quarters: Sequence[float]) -> bool:
    growth = quarters[-1] - quarters[0]
    return (
        quarters[0] > 0
        and quarters[-1] >= GROWN * quarters[0]
        and all(after - before >= EVENLY * growth for before, after in itertools.pairwise(quarters))
    )
