"""Fills values into the commands of a fix, which people copy into a shell. Pure text.

The values come from logs, from other users and from other machines. By construction, none of them ends a word, begins an option
or a line, or is run: what a template says is all that a shell does.
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping

from gputop.doctor.findings.fixes import shell_word

_PLAIN = re.compile(r"[\w.,:@/%+=][\w.,:@/%+=-]*", re.ASCII)
"""A value that means the same outside and inside of quotes, and in Python code."""
_HARMLESS = re.compile(r"[\w.,:@/%+= -]*")


def filled(template: str, values: Mapping[str, str]) -> str:
    """Return a fix with ``values`` in place of ``{name}``. Lines begin and end only where the template says so.

    A plain value stays as it is, and in a comment also several plain words. Another one is quoted where it is a word of a
    command, or part of one, and in comments, which may name commands. Inside of quotes or brackets, in what ssh passes to
    another shell, and at the beginning of a word if it looks like an option, a word in capitals takes its place, as of a value
    that is not known: the user has to fill it in.
    """
    place, parts = _Place(), []
    for text, name, _, _ in string.Formatter().parse(template):
        place.read(text)
        parts.append(text)
        if name is not None:
            parts.append(_value(values.get(name), name.upper(), place))
            place.begins_word = False
    return "".join(parts)


def _value(value: str | None, unknown: str, place: _Place) -> str:
    if place.in_comment:
        return "N/A" if value is None else value if _HARMLESS.fullmatch(value) else shell_word(value)
    if value is None or (value.startswith("-") and place.begins_word):
        return unknown
    if _PLAIN.fullmatch(value) or (place.quote and not value):
        return value
    return unknown if place.is_read_twice else shell_word(value)


class _Place:
    """Where a template is after what it has said so far, for a shell and for Python."""

    def __init__(self) -> None:
        self.quote = ""
        """The quote that is open."""
        self.depth = 0
        """How many brackets are open: in them, a line is code, and a quoted word means something else there."""
        self.in_comment = False
        self.begins_word = True
        self._command = ""
        """What the present command of the line has said."""

    @property
    def is_read_twice(self) -> bool:
        """Whether a word is not only read by this shell: quoting it once is not enough."""
        return bool(self.quote or self.depth) or self._command.lstrip().startswith("ssh ")

    def read(self, text: str) -> None:
        """Go on to the end of ``text``."""
        for sign in text:
            if sign == "\n":
                self.quote, self.depth, self.in_comment, self._command = "", 0, False, ""
            elif self.in_comment:
                continue
            elif self.quote:
                self.quote = "" if sign == self.quote else self.quote
            elif sign in "'\"`":
                self.quote = sign
            elif sign == "#" and self.begins_word:
                self.in_comment = True
            elif sign in "([{":
                self.depth += 1
            elif sign in ")]}":
                self.depth -= 1
            self._command = "" if sign in ";|&" and not self.quote else self._command + sign
            self.begins_word = sign.isspace() or sign in ";|&"
