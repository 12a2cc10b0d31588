"""Numbers of a training that have become NaN, whatever they are called. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from gputop import units
from gputop.doctor.findings.finding import Confidence, Fact, Finding
from gputop.doctor.logs.after import is_progress
from gputop.doctor.logs.numbers.line import Line

FINITE_MIN, NAN_MIN = 3, 5
"""At least this many values were finite, and at least this many in a row, up to the end of the log, are NaN (our choice)."""
NAMES_MAX = 256
EARLY_LINES = 50
"""The first lines of progress show which values a run prints; after these, lines are read only from the first NaN on."""
_PAIR = re.compile(
    r"(?<![\w./-])([A-Za-z][\w/.@-]{0,50})[\"']?[ :=]{1,4}(nan\b|[-+]?\d{1,15}(?:\.\d{1,15})?(?:e[-+]?\d{1,3})?)", re.IGNORECASE
)
_NO_LOSS = re.compile(r"(?i)step|epoch|iter|batch|time|eta|best|val|valid|eval|test|dev|rank|gpu|mem|lr|speed|rate")
"""What counts, or is NaN where there is nothing to average; and evaluations, which may lack a class."""


@dataclass
class _Values:
    finite: int = 0
    nan: int = 0
    last: str = ""
    """The line of the last number."""


class NotANumber:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first value."""
        self._values: dict[str, _Values] = {}
        self._lines = 0
        self._any_nan = False
        self._finite_beside = False
        """Whether another value in the newest line with a NaN is finite: then the NaN may only be a score that is undefined."""

    def read(self, line: Line) -> None:
        """Take the next line."""
        has_nan = "nan" in line.lower
        if not (has_nan or self._is_early or self._any_nan) or not is_progress(line.rest) or line.is_of_evaluation:
            return
        self._lines += 1
        self._any_nan = self._any_nan or has_nan
        if has_nan:
            self._finite_beside = False
        for name, value in _PAIR.findall(line.rest):
            if _NO_LOSS.search(name) or (name not in self._values and len(self._values) >= NAMES_MAX):
                continue
            values = self._values.setdefault(name, _Values())
            if value.lower() == "nan":
                values.nan += 1
            elif has_nan and "." in value and values.finite >= FINITE_MIN:
                self._finite_beside = self._finite_beside or float(value) != 0.0  # a score of a ruined model is 0
            else:
                values.finite, values.nan, values.last = values.finite + 1, 0, line.printed.strip()

    @property
    def _is_early(self) -> bool:
        return self._lines < EARLY_LINES

    def findings(self) -> tuple[Finding, ...]:
        """Return the first of the numbers that have become NaN for good."""
        if self._finite_beside:
            return ()
        gone = [(name, of) for name, of in self._values.items() if of.finite >= FINITE_MIN and of.nan >= NAN_MIN]
        if not gone:
            return ()
        name, values = gone[0]
        last = (f"its last number: {values.last[:160]}", values.last[:160])
        return (
            lost(
                f"The training's numbers are NaN: {name}, the last {units.count(values.nan)} times",
                ((f"{name} is NaN in the last {units.count(values.nan)} lines that print it", values.nan), last),
                f"{name} is NaN where there was nothing to measure.",
            ),
        )


def lost(title: str, facts: Sequence[tuple[str, float | str]], refuted_by: str, confidence: Confidence = "likely") -> Finding:
    """Return the finding on a training whose numbers are no longer finite."""
    return Finding(
        id="J01",
        severity="error",
        confidence=confidence,
        title=title,
        evidence=tuple(Fact(text, value, "log") for text, value in facts),
        cause="A step was too large, a value too small to be a divisor or in a logarithm, or too large for 16 bits; "
        "since then, all weights are NaN.",
        fix="# continue from a checkpoint before that, with a lower learning rate and\n"
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)\n"
        "torch.autograd.set_detect_anomaly(True)  # for one run: names the operation",
        refuted_by=refuted_by,
    )
