"""A log whose last report has only losses that are not finite. Pure."""

from __future__ import annotations

import math

from gputop.doctor.findings.finding import Finding
from gputop.doctor.logs.numbers.line import Line
from gputop.doctor.logs.numbers.lost.not_a_number import lost
from gputop.losses import is_of_evaluation
from gputop.tracking.printed.lines import parse
from gputop.tracking.printed.tables import Tables

LOSSES_MIN = 2
"""This many losses of one report: a single one may be undefined, such as that of a part that has no samples (our choice)."""


class LastReport:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first report."""
        self._tables = Tables()
        self._lost: tuple[str, ...] = ()
        self._line = ""

    def read(self, line: Line) -> None:
        """Take the next line."""
        row = self._tables.read(line.text)
        if not self._lost and "nan" not in line.lower and "inf" not in line.lower:
            return
        found = row or parse(line.rest)
        losses = {
            name: value
            for name, value in (found.metrics.items() if found is not None else ())
            if "loss" in name.lower() and "scale" not in name.lower() and not is_of_evaluation(name)
        }
        if any(map(math.isfinite, losses.values())):
            self._lost = ()
        elif len(losses) >= LOSSES_MIN:
            self._lost, self._line = tuple(losses), line.printed.strip()

    def findings(self) -> tuple[Finding, ...]:
        """Return that the last report has no finite loss, if so."""
        if not self._lost:
            return ()
        number = len(self._lost)
        return (
            lost(
                f"All {number} losses of the last report are NaN or infinite",
                ((self._line[:200], number),),
                "That step is skipped, and the losses of the next one are finite.",
            ),
        )
