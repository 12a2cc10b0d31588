"""Batches that a script skips because their loss is not finite, one after the other. Pure."""

from __future__ import annotations

import re
from collections import deque

from gputop import units
from gputop.doctor.findings.finding import Finding
from gputop.doctor.logs.numbers.line import Line
from gputop.doctor.logs.numbers.lost.not_a_number import lost

SKIPPED_MIN, SHARE = 3, 0.5
"""This many batches are skipped, this share of all from the first of them to the last: a damaged sample spoils one (our
choice)."""
_NOT_FINITE = r"(?:nan|inf(?:inite)?|not finite|non-?finite|not a number)"
_SKIPS = re.compile(
    rf"(?i)\bskip(?:s|ped|ping)?\b.{{0,80}}(?:\bloss\b.{{0,30}}\b{_NOT_FINITE}\b|\b{_NOT_FINITE}\b.{{0,20}}\bloss)"
    rf"|(?:\bloss\b.{{0,30}}\b{_NOT_FINITE}\b|\b{_NOT_FINITE}\b.{{0,20}}\bloss).{{0,40}}\bskip(?:s|ped|ping)?\b"
)
_NUMBER = re.compile(r"(?i)\b(?:iter(?:ation)?|step|batch)(?: (?:at|number|no\.?))?\W{1,3}(\d{1,12})\b")


class SkippedBatches:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first such batch."""
        self._newest: deque[int] = deque(maxlen=SKIPPED_MIN)
        """The numbers of the newest of them."""
        self._number = 0
        self._line = ""

    def read(self, line: Line) -> None:
        """Take the next line."""
        if "skip" not in line.lower or "loss" not in line.lower:
            return
        skips = _SKIPS.search(line.text)
        if skips is None:
            return
        begin = skips.start()
        before = list(_NUMBER.finditer(line.text, 0, begin))[-1:]
        number = _NUMBER.search(line.text, begin) or (before[0] if before else None)
        if number is None or (self._newest and int(number[1]) == self._newest[-1]):
            return
        self._newest.append(int(number[1]))
        self._number += 1
        self._line = line.text[begin:].strip()

    def findings(self) -> tuple[Finding, ...]:
        """Return that most batches are skipped, if so."""
        if len(self._newest) < SKIPPED_MIN:
            return ()
        span = self._newest[-1] - self._newest[0] + 1
        if not SKIPPED_MIN <= span <= SKIPPED_MIN / SHARE:
            return ()
        return (
            lost(
                f"The script skips batches whose loss is not finite: {units.count(self._number)} so far",
                ((f"{SKIPPED_MIN} of the newest {span} batches: {self._line[:160]}", self._number),),
                "Only these samples are damaged, and the loss of all others is finite.",
            ),
        )
