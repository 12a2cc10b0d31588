"""Which lines only repeat others: TensorFlow prints each line with the prefix of one logger and with that of another. Pure."""

from __future__ import annotations

import re
from collections import deque

from gputop.tracking.printed.origins.prefixes import prefix_end

_DIGITS = re.compile(r"\d{1,40}")
_LINES_MAX = 60
"""A text of at most this many lines is followed (our choice)."""


class Repeats:
    """Follows the lines of one stream that stand behind different prefixes.

    The same text behind the same prefix is no repeat: a loss may stay as it is.
    """

    def __init__(self) -> None:
        self._lines: deque[tuple[str, str]] = deque(maxlen=_LINES_MAX)
        """The newest lines that repeat none: their text, and their prefix without its numbers."""
        self._next: int | None = None
        """Where, counted from the newest line, the line is that the next one may repeat."""

    def is_repeat(self, line: str) -> bool:
        """Return whether a line repeats the one before it, or one of a text that has begun to repeat."""
        end = prefix_end(line)
        text, prefix = line[end:].strip(), _DIGITS.sub("#", line[:end]).strip()
        if not text:
            return False
        if self._next is not None:
            if self._next and self._lines[-self._next][0] == text:
                self._next -= 1
                return True
            self._lines.clear()  # repeated once: the same text is new again
            self._next = None
        begin = self._begin_of(text, prefix)
        if begin is not None:
            self._next = begin - 1
            return True
        self._lines.append((text, prefix))
        return False

    def _begin_of(self, text: str, prefix: str) -> int | None:
        """Return where the line is that this one repeats: the newest one, or further back the heading of a text."""
        reach = len(self._lines) if text.endswith(":") and _DIGITS.search(text) else min(1, len(self._lines))
        for back in range(1, reach + 1):
            if self._lines[-back][0] == text:
                return back if self._lines[-back][1] != prefix else None
        return None
