"""Small charts of many metrics, a page at a time, drawn by the engine of the large one. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from gputop import units
from gputop.tui.drawing.large_chart import Chart, draw
from gputop.tui.drawing.line import Line, Span, clean, clip_text, fit, spread
from gputop.tui.drawing.runs.overlay import values_at

CELL_COLUMNS_MIN, CELL_LINES_MIN = 34, 7
GAP_CELLS = 2
"""Cells between two charts."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns and rows of a page, and the size of each cell."""

    across: int
    down: int
    columns: int
    lines: int

    @property
    def cells(self) -> int:
        """How many cells a page holds."""
        return self.across * self.down


def shape_of(count: int, columns: int, lines: int) -> Shape:
    """Return the shape of a page for ``count`` metrics; fewer of them get more room each."""
    across = max(1, min(count, (columns + GAP_CELLS) // (CELL_COLUMNS_MIN + GAP_CELLS)))
    down = max(1, min(-(-count // across), lines // CELL_LINES_MIN))
    return Shape(across, down, (columns - GAP_CELLS * (across - 1)) // across, max(1, lines // down))


def found(names: Sequence[str], text: str) -> tuple[str, ...]:
    """Return the metrics whose names hold every word of a search."""
    words = text.casefold().split()
    return tuple(name for name in names if all(word in name.casefold() for word in words))


def grid_lines(cells: Sequence[tuple[str, Chart | None]], shape: Shape, chosen: str, ascii_only: bool) -> tuple[Line, ...]:
    """Return one page: below each metric's name and value, its chart."""
    lines: list[Line] = []
    for first in range(0, len(cells), shape.across):
        drawn = [_cell(name, chart, shape, name == chosen, ascii_only) for name, chart in cells[first : first + shape.across]]
        for parts in zip(*drawn, strict=True):
            row: list[Span] = []
            for part in parts:
                row += [Span(" " * GAP_CELLS), *part] if row else part
            lines.append(tuple(row))
    return tuple(lines)


def _cell(name: str, chart: Chart | None, shape: Shape, chosen: bool, ascii_only: bool) -> list[Line]:
    mark = (">" if ascii_only else "▸") if chosen else " "
    values = values_at(chart) if chart is not None else []
    shown = [Span(units.metric(value) + " ", style) for _, style, value in values if value is not None]
    room = max(4, shape.columns - sum(len(span.text) for span in shown) - 4)
    title = spread(
        (Span(mark, "accent"), Span(clip_text(clean(name), room), "accent" if chosen else "title")), tuple(shown), shape.columns
    )
    if chart is None:
        rest: list[Line] = [fit((), shape.columns)] * (shape.lines - 1)
    else:
        rest = list(_drawn(chart))
    return [title, *rest]


@lru_cache(maxsize=64)
def _drawn(chart: Chart) -> tuple[Line, ...]:
    return draw(chart)
