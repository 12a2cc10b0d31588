"""Rows of tables, each cell with the name of its column, as if the line had named each value. Pure.

A heading is a line of names that two blanks, a tab, a bar or a comma separate, without any number; a row below it has as many
cells, most of them numbers. Both may follow a logger's words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from gputop.doctor.logs.numbers.parts import are_times, kind_of

COLUMNS_MIN, COLUMNS_MAX, CELL_CHARACTERS = 3, 64, 40
NUMBERS_SHARE = 0.5
"""At least this share of a row's cells are numbers (our choice)."""
_HEAD = re.compile(
    r"^(?:\[?(?:\d{4}[-/.]\d\d[-/.]\d\d[T ,_]{0,2})?\d{1,2}:\d\d(?::\d\d(?:[.,]\d{1,9})?)?Z?\]?\s{1,9})?"
    r"(?:\[?(?:DEBUG|INFO|WARNING)\]?\s{1,3})?"
    r"(?:\[\d{1,4}(?:/\d{1,4})?\]\s{0,2})?"
)
"""What a logger may print before a row: a time, a level, a rank."""
_BARS = str.maketrans("│┃┆║", "||||")
_GAP = re.compile(r"\s{1,20}[|]\s{0,20}|[|]\s{1,20}|\t|\s{2,}|(?<=\w),(?=\S)")
_NAME = re.compile(r"[^\W\d_](?:[\w/+.@%#()\[\]\u00b0-]| (?![-+]?\d)){0,39}")
_TIMES = (("time",), ("date",), ("timestamp",), ("clock",))
_NUMBER = re.compile(
    r"[-+]?\d{1,9}(?:[.,]\d{1,9})?(?:e[-+]?\d{1,3})?(?P<unit> ?(?:%|m?s|[CWGM]|MHz|[GM]i?B|°C))?", re.IGNORECASE
)
_UNIT = re.compile(r"(?: ?[(\[]|[ _])(?P<unit>m?s)(?:ec(?:onds)?)?[)\]]?$")
OF_A_GPU = r"mem|clk|clock|mhz|util|temp|power|watt|count|%"
"""In the name of a column that is about a GPU or counts something, and is not part of a step."""
_NO_TIME = re.compile(rf"(?i){OF_A_GPU}|loss|acc|norm|(?<![a-z])lr|tok|samples|/s|per_s|g[bi]")


class Rows:
    """Follows the lines of one log."""

    def __init__(self) -> None:
        """Start before the first heading."""
        self._columns: tuple[str, ...] = ()
        self._words: tuple[str, ...] = ()
        """The same, if single blanks separate the names, too."""

    def of(self, text: str) -> Mapping[str, str]:
        """Return the cells of a row by the names of their columns, in lower case; empty for any other line."""
        body, after_time = _body(text)
        cells = _cells(body)
        columns = self._columns[1:] if after_time and self._columns[:1] in _TIMES else self._columns
        words = cells if len(cells) > 1 else body.split()
        row = _row(columns, cells) or _row(self._words, words)
        if row:
            return row
        if COLUMNS_MIN <= len(cells) <= COLUMNS_MAX and all(map(_NAME.fullmatch, cells)):
            names, words = [cell.lower() for cell in cells], body.lower().split()
            self._columns = tuple(names) if len(set(names)) == len(names) else ()
            self._words = tuple(words) if len(words) > len(names) and len(set(words)) == len(words) else ()
        return {}


def _row(columns: Sequence[str], cells: Sequence[str]) -> dict[str, str]:
    if not cells or len(cells) != len(columns):
        return {}
    numbers = sum(_NUMBER.fullmatch(cell) is not None for cell in cells)
    return dict(zip(columns, cells, strict=True)) if numbers >= NUMBERS_SHARE * len(cells) else {}


def parts_in(row: Mapping[str, str]) -> dict[str, float]:
    """Return the seconds of each part of a step in a row, by its name; as printed if no column names a unit.

    Empty unless two columns are parts of different kinds, or one is and another one the whole.
    """
    found: dict[str, float] = {}
    without: dict[str, float] = {}
    in_ms = any((named := _UNIT.search(column)) is not None and named["unit"] == "ms" for column in row)
    for column, cell in row.items():
        name, value = _UNIT.sub("", column).strip(), _NUMBER.fullmatch(cell)
        if value is None or kind_of(name) is None or _NO_TIME.search(name):
            continue
        unit, named = (value["unit"] or "").strip().lower(), _UNIT.search(column)
        unit = unit or (named["unit"] if named is not None else "")
        if not unit and "." not in cell:
            continue  # a count
        unit = unit or ("ms" if in_ms else "")
        if unit in ("", "s", "ms"):
            number = float(value[0].removesuffix(value["unit"] or "").replace(",", "."))
            (found if unit else without)[name] = number * (1e-3 if unit == "ms" else 1.0)
    if without and are_times(without):
        found |= without
    return found if len({kind_of(name) for name in found}) > 1 else {}


def _body(text: str) -> tuple[str, bool]:
    """Return what follows a logger's words, without the bars at both ends, and whether a time came before it."""
    head = _HEAD.match(text)
    rest = text if head is None else text[head.end() :]
    plain = rest if rest.isascii() else rest.translate(_BARS)
    return plain.strip().strip("|").strip(), head is not None and ":" in head[0]


def _cells(body: str) -> Sequence[str]:
    return [cell for part in _GAP.split(body) if (cell := part.strip())] if len(body) < CELL_CHARACTERS * COLUMNS_MAX else []
