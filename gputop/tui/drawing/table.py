"""Tables: columns that fit a width; the least important are dropped first. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gputop.tui.drawing.line import ASCII_ELLIPSIS, ELLIPSIS, Line, Span, clip, fit_text


@dataclass(frozen=True, slots=True)
class Column:
    """One column: the key of its cells, its heading, its width in cells.

    ``align`` is "<" or ">". ``priority``: the highest number is dropped first; 0 is never dropped. A column with ``grows``
    takes the remaining width, and its ``width`` is the minimum.
    """

    key: str
    heading: str
    width: int
    align: str = "<"
    priority: int = 0
    grows: bool = False


Cells = Mapping[str, Span]
"""Column key -> text and style; a missing key is a blank."""


def fitting(columns: Sequence[Column], width: int) -> tuple[tuple[Column, int], ...]:
    """Return the columns that fit into ``width`` cells with one cell between them, each with its final width."""
    kept = list(columns)
    while len(kept) > 1 and sum(column.width + 1 for column in kept) - 1 > width:
        dropped = max(range(len(kept)), key=lambda index: (kept[index].priority, index))
        if kept[dropped].priority == 0:
            break
        del kept[dropped]
    spare = max(0, width - (sum(column.width + 1 for column in kept) - 1))
    growing = [column for column in kept if column.grows]
    return tuple((column, column.width + (spare if growing and column is growing[-1] else 0)) for column in kept)


def heading_line(columns: Sequence[tuple[Column, int]], width: int, ascii_only: bool = False, sorted_by: str = "") -> Line:
    """Return the headings; the column ``sorted_by`` is highlighted."""
    spans: list[Span] = []
    for column, cells in columns:
        if spans:
            spans.append(Span(" "))
        style = "accent" if column.key == sorted_by else "dim"
        spans.append(Span(_fit(column.heading, cells, column.align, ascii_only), style))
    return clip(tuple(spans), width, _ellipsis(ascii_only))


_GAP, _NOTHING = Span(" "), Span("")


def row_line(columns: Sequence[tuple[Column, int]], cells: Cells, width: int, ascii_only: bool = False) -> Line:
    """Return one row; cells that are too long end in an ellipsis."""
    spans: list[Span] = []
    for column, room in columns:
        if spans:
            spans.append(_GAP)
        text, style = cells.get(column.key, _NOTHING)
        spans.append(Span(_fit(text, room, column.align, ascii_only), style))
    return clip(tuple(spans), width, _ellipsis(ascii_only))


def column_at(columns: Sequence[tuple[Column, int]], x: int) -> str | None:
    """Return the key of the column under cell ``x``, for a click on its heading."""
    start = 0
    for column, cells in columns:
        if start <= x <= start + cells:
            return column.key
        start += cells + 1
    return None


def _ellipsis(ascii_only: bool) -> str:
    return ASCII_ELLIPSIS if ascii_only else ELLIPSIS


def _fit(text: str, cells: int, align: str, ascii_only: bool) -> str:
    return fit_text(text, cells, align, _ellipsis(ascii_only))
