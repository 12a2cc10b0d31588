"""Finds expressions whose search takes time with the square of a line's length, by their structure. No clock.

A search tries each character of a line as the start, so it is a repeat without bound itself. It is quadratic where two repeats
without bound can share the characters between them, and what follows the second can fail: "a.*b" on "aaaa", from each "a" to
the end. What has to stand between them keeps them apart if the second cannot run over it, or the first cannot.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

_PARSER: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")
BOUNDED = 400
"""A repeat of at most this many characters costs a search at most this many times the line's length."""
_MANY_PATHS, _MOST_PATHS = 256, 4096
_ALL = frozenset(map(chr, range(128))) | {"é"}
"""One letter stands for all characters outside of ASCII."""
_CLASSES = {
    "CATEGORY_DIGIT": r"\d",
    "CATEGORY_NOT_DIGIT": r"\D",
    "CATEGORY_SPACE": r"\s",
    "CATEGORY_NOT_SPACE": r"\S",
    "CATEGORY_WORD": r"\w",
    "CATEGORY_NOT_WORD": r"\W",
}
_WORD = frozenset(character for character in _ALL if re.match(r"\w", character))


@dataclass(frozen=True, slots=True)
class _Item:
    """A part of one way through an expression: characters, how often at least, and whether without bound."""

    characters: frozenset[str]
    least: int
    unbounded: bool = False


_FAILS = _Item(frozenset(), 0)
"""A place where a match can fail although nothing is consumed: the end of a line, a look ahead."""
_END = _Item(frozenset(), 0)
"""What a look ahead found is not consumed: this way through the expression ends here."""
_LINE_START = _Item(frozenset(), 1)
"""No character stands there: what cannot be repeated."""
_SEARCH = _Item(_ALL, 0, True)


def quadratic(expression: str) -> str | None:
    """Return the characters that two repeats without bound share somewhere in the expression; None if there are none."""
    tree = _PARSER.parse(expression)
    if not _has_a_repeat_without_bound(tree):
        return None
    fold = bool(tree.state.flags & re.IGNORECASE)
    for path in _paths(list(tree), fold):
        items = [_SEARCH, *path]
        repeats = [at for at, item in enumerate(items) if item.unbounded]
        for first in repeats:
            for second in (at for at in repeats if at > first and _can_fail(items[at + 1 :])):
                shared = _shared(items, first, second)
                if shared is not None:
                    return shared
    return None


def _has_a_repeat_without_bound(parsed: Any) -> bool:
    if isinstance(parsed, tuple) and str(parsed[0]).endswith("_REPEAT") and parsed[1][1] > BOUNDED:
        return True
    parts = parsed if isinstance(parsed, (list, tuple)) or hasattr(parsed, "state") else ()
    return any(map(_has_a_repeat_without_bound, parts))


def _shared(items: Sequence[_Item], first: int, second: int) -> str | None:
    common = items[first].characters & items[second].characters
    between = items[first + 1 : second]
    needed = [item.characters & common for item in (*between, items[second]) if item.least or item is items[second]]
    if not all(needed):
        return None
    return "".join(min(characters) for characters in needed)


def _can_fail(rest: Sequence[_Item]) -> bool:
    return any(item.least or item is _FAILS for item in rest)


def _paths(parts: Sequence[Any], fold: bool) -> list[list[_Item]]:
    """Return the ways through a sequence of parsed parts."""
    found: list[list[_Item]] = [[]]
    for at, part in enumerate(parts):
        ways = list(_ways(part, parts[at + 1 :], fold))
        ended = [way for way in found if way and way[-1] is _END]
        found = [*ended, *([*start, *way] for start in found if not start or start[-1] is not _END for way in ways)]
        if len(found) > _MANY_PATHS:
            found = _without_doubles(found)
        assert len(found) <= _MOST_PATHS, "too many ways: write the expression as several"
    return found


def _without_doubles(paths: Sequence[list[_Item]]) -> list[list[_Item]]:
    """Return the ways that differ in what is repeated without bound, and in what has to stand between, in any order."""
    found = {}
    for path in paths:
        short: list[_Item] = []
        between: set[frozenset[str]] = set()
        for item in [*path, None]:
            if item is None or item.unbounded or item is _END or item is _FAILS:
                # Where a character stands, one of a larger set may stand as well.
                fewest = [some for some in between if not any(other < some for other in between)]
                short += [*(_Item(some, 1) for some in sorted(fewest, key=sorted)), *([item] if item is not None else [])]
                between = set()
            elif item.least:
                between.add(item.characters)
        found[tuple((item, item is _END) for item in short)] = short
    return list(found.values())


def _ways(part: Any, after: Sequence[Any], fold: bool) -> Iterator[list[_Item]]:
    code, value = part
    name = str(code)
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        yield from _repeated(*value, fold)
    elif name == "SUBPATTERN":
        yield from _paths(list(value[3]), fold)
    elif name == "ATOMIC_GROUP":
        yield from _paths(list(value), fold)
    elif name == "BRANCH":
        for branch in value[1]:
            yield from _paths(list(branch), fold)
    elif name == "ASSERT_NOT" and value[0] < 0:
        # What must not stand before: some other character does, or none.
        yield [_Item(_ALL - _one(list(value[1]), fold), 1)]
    elif name in ("ASSERT", "ASSERT_NOT"):
        yield [_FAILS]
        for way in _paths(list(value[1]), fold):
            yield [*way, _FAILS, _END]  # it consumes nothing: what follows does not go on behind it
    elif name == "AT":
        yield [_boundary(str(value), after, fold)]
    else:
        yield [_Item(_one([part], fold), 1)]


def _repeated(least: int, most: int, body: Any, fold: bool) -> Iterator[list[_Item]]:
    ways = _paths(list(body), fold)
    unbounded = most > BOUNDED
    if least == 0:
        yield []
    for way in ways:
        if len(way) == 1 and not way[0].unbounded:
            yield [_Item(way[0].characters, min(least, 1), unbounded)]
        elif unbounded:  # once, and then as often as its characters go on
            yield [*way, _Item(frozenset().union(*(item.characters for item in way)), 0, True)]
        else:
            yield way


def _boundary(kind: str, after: Sequence[Any], fold: bool) -> _Item:
    if kind in ("AT_BEGINNING", "AT_BEGINNING_STRING"):
        return _LINE_START
    if kind == "AT_BOUNDARY" and after:
        following = _paths(after[:1], fold)
        if all(way and way[0].least and way[0].characters <= _WORD for way in following):
            return _Item(_ALL - _WORD, 1)
    return _FAILS


def _one(parts: Sequence[Any], fold: bool) -> frozenset[str]:
    """Return the characters that one position may have."""
    found: set[str] = set()
    for code, value in parts:
        name = str(code)
        if name == "LITERAL":
            found.add(chr(value) if chr(value) in _ALL else "é")
        elif name == "NOT_LITERAL":
            found |= _ALL - {chr(value)}
        elif name == "ANY":
            found |= _ALL - {"\n"}
        elif name == "RANGE":
            found |= {character for character in _ALL if value[0] <= ord(character) <= value[1]}
        elif name == "CATEGORY":
            found |= {character for character in _ALL if re.match(_CLASSES[str(value)], character)}
        elif name == "IN":
            inner = _one([item for item in value if str(item[0]) != "NEGATE"], fold)
            found |= _ALL - inner if any(str(item[0]) == "NEGATE" for item in value) else inner
        else:
            raise AssertionError(f"a position of kind {name}")
    if fold:
        found |= {other for character in found for other in (character.lower(), character.upper()) if other in _ALL}
    return frozenset(found)
