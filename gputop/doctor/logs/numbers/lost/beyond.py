"""Numbers of a training that leap beyond all measure, whatever they are called, in lines of one form. Pure.

The names of losses have rules of their own (J02). Others call it an objective, a likelihood or a perplexity, or print a column
without a name.
"""

from __future__ import annotations

import re
from collections import deque

from gputop import units
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.line import Line

BEFORE_MIN, USUAL, BEYOND = 3, 1e6, 1e12
"""After at least this many values below the second number, one is above the third (our choice)."""
RECENT = 60
"""So many lines before it show what is usual (our choice)."""
NUMBERS_MAX = 40
TRIES_MAX = 200
"""A log with this many lines that hold such a number, none of which leapt, prints what is meant to be that large."""
_CANDIDATE = re.compile(r"\d{13}\.\d|\de\+?\d\d", re.IGNORECASE)
"""A number that may be beyond, and is no count: those are whole. Most lines have none, and cost nothing else."""
_NUMBER = re.compile(r"(?<![\w.])[-+]?\d{1,60}(?:\.\d{1,30})?(?:e[-+]?\d{1,3})?(?![\w])", re.IGNORECASE)
_NO_DIGITS = re.compile(r"[\d.+-]{1,80}(?:e[-+]?\d{1,3})?")
_NAME = re.compile(r"([A-Za-z][^\s,;|]{0,40})\s{0,9}[:=]?\s{0,9}$")
_COUNTED = re.compile(r"(?i)flops?|bytes?|param|token|time|seed|hash|id\b|size|memory|scale")
"""What may be that large."""


class Beyond:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first line."""
        self._recent: deque[str] = deque(maxlen=RECENT)
        self._forms: dict[str, str] = {}
        """Of the recent lines, once asked for: a run that is lost prints such a number in each line."""
        self._tries = 0
        self._found: tuple[str, int, float, float, str] | None = None
        """The form of the lines, which of their numbers, its last usual value, the leap, and its name."""

    def read(self, line: Line) -> None:
        """Take the next line."""
        if line.is_of_evaluation:
            return
        if self._found is not None:
            self._come_back(line.text)
        elif self._tries < TRIES_MAX and _CANDIDATE.search(line.text) is not None:
            self._tries += 1
            self._leap(line.text)
        self._recent.append(line.text)

    def _leap(self, text: str) -> None:
        form = _form_of(text)
        self._forms = {other: self._forms.get(other) or _form_of(other) for other in self._recent}
        before = [_numbers_in(other) for other in self._recent if self._forms[other] == form]
        for at, match in enumerate(_NUMBER.finditer(text)):
            if at >= NUMBERS_MAX:
                return
            value = float(match[0])
            usual = [numbers[at] for numbers in before if at < len(numbers)]
            if abs(value) < BEYOND or len(usual) < BEFORE_MIN or not ("." in match[0] or "e" in match[0].lower()):
                continue
            name = _NAME.search(text, max(0, match.start() - 60), match.start())
            called = name[1].rstrip(":= ") if name is not None else ""
            if max(map(abs, usual)) < USUAL and _COUNTED.search(called) is None:
                self._found = form, at, usual[-1], value, called
                return

    def _come_back(self, text: str) -> None:
        assert self._found is not None
        form, at, *_ = self._found
        numbers = _numbers_in(text) if _form_of(text) == form else []
        if at < len(numbers) and abs(numbers[at]) < USUAL:
            self._found = None

    def findings(self) -> tuple[Finding, ...]:
        """Return the first number that leapt and did not come back."""
        if self._found is None:
            return ()
        _, _, last, value, name = self._found
        what = name or "A number of each line"
        return (
            Finding(
                id="J02",
                severity="error",
                confidence="possible",
                title=f"{what} has grown beyond all measure: from {units.metric(last)} to {units.metric(value)}",
                evidence=(Fact(f"{what} was {units.metric(last)}, and then {units.metric(value)}", value, "log"),),
                cause="The steps overshoot, each further than the one before: the learning rate is far too high, or a value "
                "has no bounds. What the model had learned is lost.",
                fix="torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # before optimizer.step()\n"
                "# start again, or continue from a checkpoint before it, with a lower learning rate and a warm-up",
                refuted_by="This number is no loss, and is meant to be that large.",
            ),
        )


def _form_of(text: str) -> str:
    return _NO_DIGITS.sub("#", text)


def _numbers_in(text: str) -> list[float]:
    return [float(found) for found in _NUMBER.findall(text)[:NUMBERS_MAX]]
