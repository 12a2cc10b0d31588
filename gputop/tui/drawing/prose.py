"""Text and name-value tables as lines: wrapped to a width, nothing cut, nothing parsed. Pure."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from itertools import zip_longest

from rich.cells import chop_cells

from gputop.tui.drawing.line import Line, Span, clean, fit_text, text_width
from gputop.tui.drawing.line import width as width_of

BLANK: Line = ()
_WORD = re.compile(r"\s*\S+")


def wrapped(text: str, width: int, style: str = "text", *, first: str = "", rest: str = "") -> tuple[Line, ...]:
    """Return the text in lines of at most ``width`` columns, keeping its own line breaks.

    ``first`` precedes the first line, ``rest`` the others; both are dim.
    """
    lines: list[Line] = []
    room = max(8, width - max(len(first), len(rest)))
    for paragraph in text.splitlines() or [""]:
        indent = " " * (len(paragraph) - len(paragraph.lstrip()))
        for piece in _pieces(clean(paragraph.expandtabs(4)), room, indent[: room // 2]) or [""]:
            lead = rest if lines else first
            lines.append((Span(lead, "dim"), Span(piece, style)) if lead else (Span(piece, style),))
    return tuple(lines)


def _pieces(text: str, room: int, indent: str) -> list[str]:
    if text.isascii():
        return textwrap.wrap(text, room, subsequent_indent=indent, break_on_hyphens=False, drop_whitespace=True)
    # textwrap counts characters, and some take two cells.
    pieces: list[str] = []
    current = ""
    for word in _WORD.findall(text.rstrip()):
        if text_width(current + word) <= room:
            current += word
            continue
        if current:
            pieces.append(current)
        # Nothing is left of a word without width, such as a lone joiner.
        *whole, current = chop_cells((indent if pieces else "") + word.lstrip(), room) or [""]
        pieces += whole
    return [*pieces, current] if current else pieces


def heading(text: str) -> Line:
    """Return the line above a group."""
    return (Span(text, "title"),)


def side_by_side(left: Sequence[Line], right: Sequence[Line], columns: int) -> tuple[Line, ...]:
    """Return two texts next to each other; ``left`` is at most ``columns`` wide, and three cells are between them."""
    return tuple(
        (*first, Span(" " * max(1, columns + 3 - width_of(first))), *second)
        for first, second in zip_longest(left, right, fillvalue=BLANK)
    )


def pairs(
    rows: Iterable[tuple[str, str] | tuple[str, str, str]], width: int, *, indent: str = "  ", label_columns: int | None = None
) -> tuple[Line, ...]:
    """Return names and values in two columns; a row's third item is its value's style. Values wrap, N/A is dim."""
    listed = [(row[0], row[1], row[2] if len(row) == 3 else _value_style(row[1])) for row in rows]
    if not listed:
        return ()
    columns = min(label_columns or max(text_width(clean(name)) for name, _, _ in listed) + 2, max(8, width // 2))
    lines: list[Line] = []
    for name, value, style in listed:
        room = max(8, width - len(indent) - columns)
        for number, line in enumerate(wrapped(value, room, style)):
            label = f"{fit_text(clean(name), columns - 1)} " if number == 0 else " " * columns
            lines.append((Span(indent), Span(label, "dim"), *line))
    return tuple(lines)


def _value_style(value: str) -> str:
    return "dim" if value in ("N/A", "–", "-") else "text"
