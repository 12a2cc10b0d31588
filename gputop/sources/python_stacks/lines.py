"""Which line an instruction of a code object belongs to: CPython's two formats of line tables. Pure.

The formats are described in CPython's Objects/lnotab_notes.txt (3.10) and Objects/locations.md (from 3.11 on).
"""

from __future__ import annotations

from collections.abc import Iterator

_NO_LINE_OLD = -128
_SHORT = range(10)
_ONE_LINE = range(10, 13)
_NO_COLUMNS, _LONG, _NONE = 13, 14, 15
_UNIT_BYTES = 2


def line_at(table: bytes, first: int, offset: int, *, old: bool) -> int:
    """Return the line of the instruction ``offset`` bytes after the first one; the first line of the code if there is none.

    Args:
        table: The line table of the code object.
        first: The first line of the code object.
        offset: In bytes.
        old: Whether it has the format of 3.10.
    """
    for end, line in _ranges_old(table, first) if old else _ranges(table, first):
        if offset < end:
            return first if line is None else line
    return first


def _ranges_old(table: bytes, line: int) -> Iterator[tuple[int, int | None]]:
    """Yield the end of each range of instructions, in bytes, and its line."""
    end = 0
    for place in range(0, len(table) - 1, 2):
        change = int.from_bytes(table[place + 1 : place + 2], "little", signed=True)
        end += table[place]
        if change == _NO_LINE_OLD:
            yield end, None
        else:
            line += change
            yield end, line


def _ranges(table: bytes, line: int) -> Iterator[tuple[int, int | None]]:
    """Yield the same for the newer format."""
    end = place = 0
    while place < len(table):
        head = table[place]
        place += 1
        end += _UNIT_BYTES * ((head & 7) + 1)
        kind = head >> 3 & 15
        if kind == _NONE:
            yield end, None
            continue
        if kind in _ONE_LINE:
            line += kind - _ONE_LINE.start
        elif kind in (_NO_COLUMNS, _LONG):
            change, _ = _number(table, place)
            line += -(change >> 1) if change & 1 else change >> 1
        yield end, line
        while place < len(table) and not table[place] & 0x80:  # only the first byte of an entry has this bit
            place += 1


def _number(table: bytes, place: int) -> tuple[int, int]:
    """Return a number of six bits a byte, least first, and the place after it."""
    value = shift = 0
    while place < len(table):
        byte = table[place]
        place += 1
        value |= (byte & 63) << shift
        shift += 6
        if not byte & 64:
            break
    return value, place
