"""Cuts a log's bytes into lines and finds those that must be read: a search for literals skips the others. Pure.

While a reader follows the lines one by one, for example after a text that may be the end, all of them count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import NamedTuple

from gputop.doctor.logs import error_lines, starts
from gputop.doctor.logs.launcher import ROOT
from gputop.doctor.logs.lines import clean
from gputop.doctor.logs.patterns.table import TRIGGERS
from gputop.doctor.logs.quoted import passed_tests
from gputop.doctor.logs.quoted.written_samples import begun_at, without_samples
from gputop.doctor.logs.tracebacks import TRACEBACK

LINE_BYTES = 65_536
"""Data without line endings is cut into lines of this length."""
TAIL_BYTES = 4096
"""How much of a log's end is kept to search it for signs of trouble."""
TEXT_TRIGGERS = (*TRIGGERS, *error_lines.TRIGGERS, *passed_tests.TRIGGERS, *starts.TRIGGERS, TRACEBACK[:21], ROOT)
"""A line without any of these literals is not informative by itself."""
_TRIGGERS = tuple(dict.fromkeys(trigger.encode() for trigger in TEXT_TRIGGERS))
_SHARED = (b"rror", b"not ", b"ailed", b"evice", b"emory", b"imed ou", b"ignal", b"xceeded")
"""Parts of many triggers: if a piece lacks one, none of its triggers is searched for."""
_GROUPS = {
    part: tuple(trigger for trigger in _TRIGGERS if part == next((other for other in _SHARED if other in trigger), b""))
    for part in (*_SHARED, b"")
}
_NARROWER = {
    trigger.encode(): expression.encode() for trigger, expression in {**error_lines.NARROWER, **passed_tests.NARROWER}.items()
}
_BREAKS = re.compile(rb"[\r\n]")
_PLAIN = re.compile(rb"[\t\n\r -~]*")


class Line(NamedTuple):
    """A line that must be read: ``data[begin:finish]`` of a piece."""

    begin: int
    found: int
    """Where its first literal is; ``begin`` if all lines are being read."""
    finish: int
    number: int
    """Its number in the log, from 1."""
    jumped: bool
    """Whether lines before it were skipped."""


class Pieces:
    """The lines of one log, as its bytes arrive."""

    def __init__(self) -> None:
        """Start at the first byte of a log."""
        self.lines = 0
        """Lines so far."""
        self.size_bytes = 0
        """Bytes of complete lines so far."""
        self.offset_bytes = 0
        """How many of them come before the line that is being read."""
        self.may_be_known: tuple[str, ...] = TRIGGERS
        """A line outside tracebacks contains one of these literals if it may contain a known text."""
        self._numbered = True
        self._rest = b""
        self._end = b""

    def complete(self, data: bytes) -> bytes:
        """Take the next bytes of the log, and return the lines that are now complete, without the samples of a model."""
        data = self._rest + data
        end = data.rfind(b"\n") + 1
        if len(data) - end > LINE_BYTES:
            end = len(data)
        end = begun_at(data[:end])
        self._rest = data[end:]
        return without_samples(data[:end])

    def last(self) -> bytes:
        """Return what was held back, terminated; b"" if there is nothing."""
        rest, self._rest = self._rest, b""
        return rest.removesuffix(b"\n") + b"\n" if rest else b""

    def skip(self) -> None:
        """Mark a part of the log as skipped: later lines have no numbers."""
        self._rest = self._end = b""
        self._numbered = False

    def continue_after(self, before: Pieces) -> None:
        """Continue the line numbers of another reading of the same log."""
        self.lines, self._numbered = before.lines, before._numbered

    def number(self, at: int) -> int:
        """Return the number of a line, from 1; 0 if it is unknown."""
        return at if self._numbered else 0

    @property
    def last_bytes(self) -> bytes:
        """The last bytes read, to look back at."""
        return self._end

    def ending(self) -> list[str]:
        """Return the last lines of the log, cleaned, without blank ones."""
        return [line for line in map(clean, _BREAKS.split(self._end)) if line.strip()]

    def widen(self) -> None:
        """Treat any line as one that may contain a known text, until the next piece: it was assembled from more than this piece
        shows."""
        self.may_be_known = TRIGGERS

    def read(self, data: bytes, follows: Callable[[], bool], passed: Callable[[bytes], None]) -> Iterator[Line]:
        """Find the lines of a piece that must be read.

        ``follows`` says before each line whether it counts in any case; ``passed`` receives what was skipped.
        """
        if not data:
            return
        self._end = (self._end + data[-TAIL_BYTES:])[-TAIL_BYTES:]
        before_bytes, self.size_bytes = self.size_bytes, self.size_bytes + len(data)
        # Finding out which triggers a piece contains is fast; an expression with all of them takes far longer.
        held = tuple(trigger for part, group in _GROUPS.items() if part in data for trigger in group if trigger in data)
        if not held and not follows():
            self.lines += data.count(b"\n")
            passed(data)
            return
        trigger = _expression_of(held)
        # Lines are cleaned of escape sequences and the like, which may split words, so the bytes do not show them.
        self.may_be_known = _literals_of(held) if _PLAIN.fullmatch(data) is not None else TRIGGERS
        position = counted = 0
        while position < len(data):
            jumped = not follows()
            if jumped:
                hit = trigger.search(data, position)
                if hit is None:
                    passed(data[position:])
                    break
                begin = max(position, data.rfind(b"\n", 0, hit.start()) + 1, data.rfind(b"\r", 0, hit.start()) + 1)
                passed(data[position:begin])
                found = hit.start()
            else:
                begin = found = position
            stop = _BREAKS.search(data, found)
            finish = stop.start() if stop else len(data)
            self.lines += data.count(b"\n", counted, begin)
            counted = begin
            self.offset_bytes = before_bytes + begin
            yield Line(begin, found, finish, self.lines + 1, jumped)
            position = finish + 1
        self.lines += data.count(b"\n", counted)


@lru_cache(64)
def _expression_of(held: tuple[bytes, ...]) -> re.Pattern[bytes]:
    """Return the expression that finds these triggers; without any, it finds nothing."""
    return re.compile(b"|".join(_NARROWER.get(trigger, re.escape(trigger)) for trigger in held) or rb"(?!)")


@lru_cache(64)
def _literals_of(held: tuple[bytes, ...]) -> tuple[str, ...]:
    """Return the triggers among these that known texts contain."""
    return tuple(trigger for trigger in TRIGGERS if trigger.encode() in held)
