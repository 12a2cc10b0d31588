"""Where in a log tests run and pass: the errors there are those that the tests provoke. Pure.

pytest 3 to 9 (_pytest/terminal.py) prints "test session starts" between equal signs, and at the end the outcomes in the order
failed, passed, skipped and so on; without -q, which omits the first line, both are there.
"""

from __future__ import annotations

import re

TRIGGERS = ("test session starts", " passed")
NARROWER = {" passed": r"={3,200} \d{1,9} passed"}
_BEGINS = re.compile(r"^={3,200} test session starts .{0,40}=$")
_PASSES = re.compile(r"^={3,200} \d{1,9} passed\b(?!.{0,200}\b(?:failed|errors?)\b).{0,200} in [\d.]{1,20}s\b")
_ENDS = re.compile(r"^={3,200} (?:no tests ran|\d{1,9} \w{1,20}).{0,200} in [\d.]{1,20}s\b")


class PassedTests:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start outside a session."""
        self._begun_at: int | None = None

    def line(self, text: str, at: int) -> int | None:
        """Take a line, number ``at`` of the log. If a session ends with it in which no test failed, return where it began."""
        if text[:3] != "===":
            return None
        if _BEGINS.match(text) is not None:
            self._begun_at = at
        elif self._begun_at is not None and _ENDS.match(text) is not None:
            begun_at, self._begun_at = self._begun_at, None
            return begun_at if _PASSES.match(text) is not None else None
        return None
