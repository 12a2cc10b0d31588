r"""The terms of a typed filter: one grammar for the filters of runs and of processes. Pure text.

Blanks separate the terms, and all must hold. A term that begins with ``-`` or ``!`` must not hold.

| term | is |
|---|---|
| ``python``, ``"two words"``, ``--lr`` | a word: a text to find; in quotes, nothing else is read in it |
| ``/lenet-\d+/`` | a regular expression |
| ``state:failed``, ``gpu:0-3`` | a field and what it holds |
| ``mem>10G``, ``lr<=1e-3`` | a comparison, by ``<``, ``<=``, ``>``, ``>=``, ``=`` or ``!=`` |

``runs.py`` and ``processes.py`` say which fields there are and what they mean.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from gputop import units
from gputop.errors import UsageError

_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "<=": operator.le,
    ">=": operator.ge,
    "!=": operator.ne,
    "==": operator.eq,
    "=": operator.eq,
    "<": operator.lt,
    ">": operator.gt,
}
_TOKEN = re.compile(
    r"""\s*(?P<not>!|-(?!-)|)(?:
        /(?P<regex>(?:\\.|[^/\\])*)(?P<closed>/?)(?=\s|$)
      | (?P<key>[^\s<>=!"':]+)\s*(?P<sign><=|>=|!=|==|=|<|>)\s*(?P<value>"[^"]*"|[^\s"<>=!]*)(?=\s|$)
      | (?P<field>[^\s<>=!"':/]+):(?P<text>"[^"]*"|[^\s"]*)(?=\s|$)
      | (?!!|-(?:\s|$))(?P<word>"[^"]*"|[^\s"<>=]+)(?=\s|$)
      | (?P<wrong>\S+)
    )""",
    re.VERBOSE,
)
_INTEGERS = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


@dataclass(frozen=True, slots=True)
class Term:
    """One term: a ``pattern``, a comparison (``name``, ``sign``, ``value``), a field (``name``, ``value``), or a word."""

    part: str
    """The term as it was typed."""
    excludes: bool
    value: str = ""
    name: str = ""
    sign: str = ""
    pattern: re.Pattern[str] | None = None
    examples: str = ""

    def wrong(self, why: str, part: str | None = None) -> UsageError:
        """Return the error that this term, or a part of it, is wrong."""
        return _wrong(part or self.part, why, self.examples)

    def seconds(self) -> float:
        """Return the value as a length of time in seconds.

        Raises:
            UsageError: it is not one.
        """
        try:
            return units.parse_duration(self.value)
        except UsageError:
            start = self.name + self.sign
            raise self.wrong(f"needs a length of time, such as {start}90s or {start}2h") from None

    def bytes(self) -> float:
        """Return the value as a size in bytes.

        Raises:
            UsageError: it is not one.
        """
        try:
            return units.parse_bytes(self.value)
        except UsageError:
            start = self.name + self.sign
            raise self.wrong(f"needs a size, such as {start}400M or {start}10G") from None

    def integers(self) -> tuple[range, ...]:
        """Return the value as numbers and ranges of numbers: "0,2-3".

        Raises:
            UsageError: it is not one.
        """
        found = [_INTEGERS.fullmatch(part) for part in self.value.split(",")]
        if not all(found):
            raise self.wrong(f"needs numbers, such as {self.name}:0 or {self.name}:0,2-3")
        return tuple(range(int(part[1]), int(part[2] or part[1]) + 1) for part in found if part)


def split(text: str, examples: str) -> Iterator[Term]:
    """Yield the terms of a filter. Errors show ``examples`` in their advice.

    Raises:
        UsageError: the text is not a filter; the message says which part and why.
    """
    text = text.strip()
    at = 0
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise _wrong(text[at:].strip(), "says nothing", examples)
        at = found.end()
        yield _term(found, examples)


def compared(held: Any, sign: str, wanted: Any) -> bool:
    """Return whether the comparison holds; one with None never does."""
    return held is not None and _COMPARE[sign](held, wanted)


def _term(found: re.Match[str], examples: str) -> Term:
    part, excludes = found[0].strip().removeprefix(found["not"]), bool(found["not"])
    if found["regex"] is not None:
        return Term(part, excludes, pattern=_pattern(found["regex"], bool(found["closed"]), examples), examples=examples)
    if found["key"] is not None:
        name, sign, value = found["key"], found["sign"], found["value"].strip('"')
        if not value:
            raise _wrong(f"{name}{sign}", "needs a value after it", examples)
        return Term(f"{name}{sign}{value}", excludes, value, name, sign, examples=examples)
    if found["field"] is not None:
        value = found["text"].strip('"')
        if not value:
            raise _wrong(f"{found['field']}:", "needs a text after it", examples)
        return Term(part, excludes, value, found["field"], examples=examples)
    if found["word"] is not None:
        return Term(part, excludes, found["word"].strip('"'), examples=examples)
    raise _wrong(found["wrong"], "is not a term", examples)


def _pattern(pattern: str, closed: bool, examples: str) -> re.Pattern[str]:
    if not closed:
        raise _wrong(f"/{pattern}", "needs a second / at its end", examples)
    try:
        return re.compile(pattern, re.IGNORECASE)
    except (re.error, OverflowError, RecursionError) as error:
        raise _wrong(f"/{pattern}/", f"is not a regular expression: {error}", examples) from error


def _wrong(part: str, why: str, examples: str) -> UsageError:
    return UsageError(f"{part} {why}.", f"Write e.g. {examples}.")
