"""The values in a run's files: typed, bounded, and with names that are safe to show."""

from __future__ import annotations

import math
from typing import Any, NamedTuple, Protocol

from gputop.terminal_text import printable, strip_controls

NAME_CHARACTERS = 200
_EARLIEST_S, _LATEST_S = 1e9, 1e11
"""A number between them (years 2001 to 5138) counts as seconds since the epoch."""
_STEP_MAX = 2**53
"""From here on, a float does not hold every integer."""
_NON_FINITE = ("NaN", "Infinity", "-Infinity")
"""How JSON writers in Python spell the numbers that JSON lacks."""


class Value(NamedTuple):
    """One value of one metric; ``time`` is wall clock in seconds since the epoch, None if the file does not say."""

    name: str
    step: int
    time: float | None
    value: float


class Parser(Protocol):
    """Follows the bytes of one file, in any pieces. Never raises, and holds no more than a few MiB."""

    refused: bool
    """Whether the file turned out to be a different kind: it contains no values and is not read further."""

    def feed(self, data: bytes) -> list[Value]:
        """Return the values that are complete with these bytes."""

    def skip(self, number: int) -> None:
        """Skip this many bytes of the file, which were not read: the next data may begin anywhere in a record."""

    def end(self) -> list[Value]:
        """Return what only the end of the file completes: a last line without a newline."""


def metric_name(text: str) -> str | None:
    """Return a name as one line of printable text; None if nothing is left of it."""
    name = " ".join(printable(strip_controls(text[: 2 * NAME_CHARACTERS])).split())
    return name[:NAME_CHARACTERS] or None


def number(value: Any) -> float | None:
    """Return a JSON number as a float, including NaN and infinities; None for anything else."""
    if isinstance(value, bool) or not (isinstance(value, int | float) or value in _NON_FINITE):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def step_number(value: Any) -> int | None:
    """Return a step as a non-negative integer; None if it is not one."""
    found = number(value)
    if found is None or not 0 <= found < _STEP_MAX or found != math.floor(found):
        return None
    return int(found)


def wall_time(value: Any) -> float | None:
    """Return a number as seconds since the epoch, if it can be that."""
    found = number(value)
    return found if found is not None and _EARLIEST_S < found < _LATEST_S else None
