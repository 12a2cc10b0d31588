"""A run that has become slower, by the time of a step next to the running mean of its epoch: "Time 9.53 (5.08)". Pure.

The first steps of an epoch are slow, so that the mean is above the steps that follow. Where each step is far above it, most of
those before were faster.
"""

from __future__ import annotations

import re

from gputop import units
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.line import Line
from gputop.doctor.logs.numbers.step_parts import MEASURED, PLACE

REPORTS_MIN, ABOVE = 6, 1.5
"""In this many reports in a row, up to the newest, the step takes at least this many times the mean so far (our choice)."""
_TIME = re.compile(r"(?<![\w/])(?:batch_?)?time:?\s{1,4}(\d{1,6}\.\d{1,6}) ?s? \((\d{1,6}\.\d{1,6})\)", re.IGNORECASE)


class AboveMeans:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first line."""
        self._slow: list[tuple[float, float]] = []
        """The times of the newest steps that were far above the mean, and that mean."""

    def read(self, line: Line) -> None:
        """Take the next line."""
        if "time" not in line.lower or line.is_of_evaluation or (line.speaker is not None and line.speaker.rank):
            return
        found = _TIME.search(line.text)
        if found is None or MEASURED.search(line.text) is None or PLACE.search(line.text) is None:
            return
        step, mean = float(found[1]), float(found[2])
        rises = not self._slow or mean > self._slow[-1][1]
        if step < ABOVE * mean or not mean or not rises:
            self._slow.clear()
        if step >= ABOVE * mean > 0:
            self._slow.append((step, mean))

    def findings(self) -> tuple[Finding, ...]:
        """Return that the newest steps are far slower than those before."""
        if len(self._slow) < REPORTS_MIN:
            return ()
        usual = units.mean([step for step, _ in self._slow])
        mean = self._slow[0][1]
        return (
            Finding(
                id="E10",
                severity="warning",
                confidence="possible",
                title=f"The run has become slower: a step takes {usual / mean:.1f} times the mean of the epoch before",
                evidence=(
                    Fact(f"the newest steps take {units.duration(usual)}", round(usual, 3), "log"),
                    Fact(f"the mean of all steps before was {units.duration(mean)}", mean, "log"),
                    Fact(f"so in each of {words.count(len(self._slow), 'report')}", len(self._slow), "log"),
                ),
                cause="Something grows with the steps, such as a list that keeps every loss or output, memory begins to swap, "
                "the GPU has become hot, or another program uses the machine.",
                fix="nvidia-smi -q -d PERFORMANCE,TEMPERATURE; free -h; top  # heat, memory, other programs\n"
                "history.append(loss.item())  # numbers, not tensors",
                refuted_by="The samples have become larger on purpose.",
            ),
        )
