"""Which lines report the script's own progress, and which only look like it: a language model's text, or quoted logs. Pure.

The steps of a script's lines rise in order. Those in generated text are invented: they neither fit the script's counter nor
follow each other. So once some lines have counted in order, lines of another form must do so, too, before they are believed.
"""

from __future__ import annotations

import math
import re
from collections import deque
from itertools import pairwise
from typing import NamedTuple

from gputop.tracking.printed.counts import counts
from gputop.tracking.printed.names import Printed, is_evaluation, is_measured

LINES_MIN = 4
"""This many lines of one form that count in order are the script's own; at exactly even distances, always (our choice)."""
OTHERS_MIN = 12
"""Next to those, this many must count in order: a few invented numbers do so by chance (our choice)."""
ORDERLY = 0.85
"""This share of all counts is in order: ranks that print in turn are out of order now and then (our choice)."""
NEAR = 0.02
"""A line is near a counter that differs by its newest strides or by this share of its value (our choice)."""
FORMS_MAX = 32
"""Before further forms are followed, those that do not count in order are forgotten; all of them if each one does."""
_EPOCH = "epoch"
_READ_CHARACTERS, _FORM_CHARACTERS = 400, 80
"""How much of a line is read, and how much of it is kept once its numbers are replaced. Cut before that, numbers of different
widths would make several forms of one."""
_COUNTED = re.compile(r"(?:step|iter|iteration|epoch|update|updates)\W{0,4}\d", re.IGNORECASE)
_NUMBER = re.compile(r"[-+]?(?:\d[\d.,:/%e-]{0,40}|\b(?:nan|inf)\b)", re.IGNORECASE)
_BLANK = re.compile(r"[^!-~]{1,80}")
"""Blanks, and the blocks of a bar, which grow."""


class Held(NamedTuple):
    """A line and what it reports."""

    line: str
    printed: Printed


class _Form:
    """The lines of one form: the same words between other numbers."""

    __slots__ = ("_begins", "_gaps", "_low", "_orderly", "_recent", "_rises", "held", "is_own")

    def __init__(self) -> None:
        self.is_own = False
        self.held: list[Held] = []
        self._recent: deque[float] = deque(maxlen=LINES_MIN)
        self._low = math.inf
        self._gaps = self._orderly = 0
        self._rises = False
        self._begins = 1
        """How often a count may be lower than all before it: output may be found in the middle of an epoch, and the next one
        counts from the start."""

    def count(self, value: float, lines_min: int) -> None:
        """Take in the count of the next line; ``lines_min``: how many lines in order are the script's own."""
        if self._recent:
            self._gaps += 1
            self._rises = self._rises or value > self._recent[-1]
            self._orderly += value >= self._recent[-1] or value == self._low or (value < self._low and self._begins > 0)
            self._begins -= value < self._low
        self._low = min(self._low, value)
        self._recent.append(value)
        orderly = self._gaps >= lines_min - 1 and self._rises and self._orderly >= ORDERLY * self._gaps
        self.is_own = orderly or self._is_even()

    def _is_even(self) -> bool:
        """Return whether the newest counts rise by exactly the same each time."""
        gaps = [after - before for before, after in pairwise(self._recent)]
        return len(gaps) == LINES_MIN - 1 and 0 < min(gaps) == max(gaps)

    def is_near(self, value: float) -> bool:
        """Return whether a count may be of the same counter at this time."""
        stride = max((abs(after - before) for before, after in pairwise(self._recent)), default=0.0)
        return abs(value - self._recent[-1]) <= max(min(stride, self._recent[-1]), NEAR * self._recent[-1])


class OwnLines:
    """Follows the counts of the lines of one output stream."""

    def __init__(self) -> None:
        self._forms: dict[tuple[str, str], _Form] = {}
        self._epoch = 0.0
        """The newest epoch that was believed."""

    def note(self, line: str) -> None:
        """Take in a line that reports no metric: it may count the script's steps all the same."""
        if _COUNTED.search(line):
            self._count(line, counts(line, evaluation=False))

    def believed(self, line: str, printed: Printed) -> list[Held]:
        """Return the lines to believe now: this one, none, or this one and those of its form that had to wait.

        A heading and an evaluation are believed: they count as they like.
        """
        this = Held(line, printed)
        trains = any(is_measured(name) and not is_evaluation(name) for name in printed.metrics)
        found = self._count(line, printed) if trains or printed.bar else None
        if found is None or printed.bar or self._fits(*found):
            self._epoch = self._epoch if printed.epoch is None else printed.epoch
            form = self._forms.get(found[0]) if found is not None else None
            waiting: list[Held] = []
            if form is not None and form.is_own:
                waiting, form.held = form.held, waiting
            return [*waiting, this]
        held = self._forms[found[0]].held
        held.append(this)
        del held[:-OTHERS_MIN]
        return []

    def _fits(self, key: tuple[str, str], value: float) -> bool:
        """Return whether a line counts in order, or there are no others that do and it is far from."""
        others = [(kind, form) for (kind, _), form in self._forms.items() if form.is_own]
        if self._forms[key].is_own or not others:
            return True
        is_next_epoch = key[0] == _EPOCH and abs(value - self._epoch) <= 1
        return is_next_epoch or any(kind == key[0] and form.is_near(value) for kind, form in others)

    def _count(self, line: str, printed: Printed) -> tuple[tuple[str, str], float] | None:
        kind, value = ("step", printed.step) if printed.step is not None else (_EPOCH, printed.epoch)
        if value is None:
            return None
        key = kind, _BLANK.sub(" ", _NUMBER.sub("#", line[:_READ_CHARACTERS]))[:_FORM_CHARACTERS]
        if key not in self._forms and len(self._forms) >= FORMS_MAX:
            own = {name: each for name, each in self._forms.items() if each.is_own}
            self._forms = own if len(own) < FORMS_MAX else {}
        any_own = any(each.is_own for name, each in self._forms.items() if name != key)
        self._forms.setdefault(key, _Form()).count(value, OTHERS_MIN if any_own else LINES_MIN)
        return key, value
