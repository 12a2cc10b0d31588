"""Line charts of braille dots, two by four per cell, with axes; plain characters where only ASCII works. Pure.

A column of dots is one integer, one bit per dot from the top: filling a range is a shift, a cell is four bits of each of two
adjacent columns. Drawing takes well under a millisecond, however long the run, because the caller passes columns and not
points.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from gputop.tui.drawing.charts.axis import YAxis, y_axis
from gputop.tui.drawing.line import Line, Span, fit

LABEL_CELLS = 6
"""Width of the labels of a y axis, unless ``Axes`` say otherwise."""
X_AXIS_MIN_HEIGHT = 5
"""From this height on, the last row holds the labels of the x axis."""
X_LINE_MIN_HEIGHT = 8
"""From this height on, a line with ticks is drawn above the labels of an x axis that has ticks."""

BAND = "░"
FREE = (" ", BAND)
"""Cells without a curve or a note."""
NOTE_ROWS = 2
"""Notes go into the top row, or below it if that is taken."""
_BAND_DOTS = 4
"""A cell belongs to the band from this many of its eight dots on: edges of whole cells look calmer than ragged ones."""
_LEFT, _RIGHT = (0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80)
"""The bits of a braille character for the four dots of a column, from the top."""
_DOTS = {
    f"{left:x}{right:x}": sum(
        bit for bits, dots in ((_LEFT, left), (_RIGHT, right)) for dot, bit in enumerate(bits) if dots >> dot & 1
    )
    for left in range(16)
    for right in range(16)
}
_NO_DOTS = "00"
_CELLS = {pair: chr(0x2800 + dots) for pair, dots in _DOTS.items()}
"""The braille character of a cell, by the dots of its left and of its right column: a hexadecimal digit each."""
_BANDS = {pair: BAND if dots.bit_count() >= _BAND_DOTS else " " for pair, dots in _DOTS.items()}
ASCII_MARKS = "*+ox#@%&"
"""Marks that draw the curves without braille, the first curve first."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One curve: a value per dot column (None: no point; NaN: the value was NaN or infinite), and its band.

    ``mark`` draws the curve where braille cannot; empty takes one of ``ASCII_MARKS``. A ``solid`` band is part of the curve.
    """

    values: Sequence[float | None]
    style: str = "rank0"
    low: Sequence[float | None] = field(default_factory=tuple)
    high: Sequence[float | None] = field(default_factory=tuple)
    mark: str = ""
    solid: bool = False


@dataclass(frozen=True, slots=True)
class Note:
    """A mark and a text for a dot column."""

    column: int
    text: str
    style: str = "dim"


@dataclass(frozen=True, slots=True)
class Axes:
    """Axes chosen by the caller.

    ``y_range`` and the positions in ``y_ticks`` are values; on a logarithmic axis, their decimal logarithms. The positions in
    ``x_ticks`` are fractions of the chart's width, 0 to 1.
    """

    y_range: tuple[float, float]
    y_ticks: Sequence[tuple[float, str]] = ()
    x_ticks: Sequence[tuple[float, str]] = ()
    label_cells: int = LABEL_CELLS


def dot_columns(width: int, letters: bool = False, label_cells: int = LABEL_CELLS) -> int:
    """Return how many dot columns a chart of ``width`` cells has, which is how many values each trace needs."""
    return max(0, width - label_cells - 1) * (1 if letters else 2)


def chart(
    traces: Sequence[Trace],
    width: int,
    height: int,
    *,
    axes: Axes | None = None,
    crosses: Iterable[int] = (),
    rule: int | None = None,
    notes: Iterable[Note] = (),
    log: bool = False,
    ascii_only: bool = False,
    letters: bool = False,
) -> tuple[Line, ...]:
    """Draw curves on shared axes in exactly ``height`` lines of ``width`` cells.

    A later trace covers an earlier one. NaN and infinities are marked by a cross in the top row of their column, as are the dot
    columns in ``crosses``. A logarithmic axis leaves out values that are not positive, and is linear if none is positive.

    Args:
        traces: The curves.
        width: Cells of a line.
        height: Lines.
        axes: The axes; without them, round numbers around all values, and no x axis.
        crosses: Dot columns to mark in addition to those of the traces.
        rule: Dot column of a vertical line; curves stay in front of it.
        notes: What to name in the top row, in cells where nothing is drawn.
        log: The y axis is logarithmic.
        ascii_only: Draw curves and axes with ASCII characters.
        letters: Draw curves with the marks of their traces, so that they differ without color.
    """
    label_cells = axes.label_cells if axes is not None else LABEL_CELLS
    cells = width - label_cells - 1
    if cells <= 0 or height <= 0:
        return tuple(fit((), max(0, width)) for _ in range(max(0, height)))
    x_axis = _x_axis(axes, cells, label_cells, height, ascii_only)
    rows = height - len(x_axis)
    plain = letters or ascii_only
    if axes is None:
        scale = axis_of(traces, rows, log=log, letters=plain)
        axes = Axes((scale.low, scale.high), scale.ticks)
        log = scale.log
    raster = _Raster(cells, rows, *axes.y_range, log, ascii_only, plain)
    labels = {raster.dot_row(place) // raster.per_row: text for place, text in axes.y_ticks}
    for number, trace in enumerate(traces):
        raster.add(trace, number)
    raster.crosses.update(column // raster.per_cell for column in crosses)
    raster.rule = None if rule is None else rule // raster.per_cell
    raster.notes = [replace(note, column=note.column // raster.per_cell) for note in notes]
    lines = [
        (_axis(labels.get(row), row in labels, label_cells, ascii_only), *drawn) for row, drawn in enumerate(raster.finished())
    ]
    return tuple(fit(line, width) for line in (*lines, *x_axis))


def axis_of(traces: Sequence[Trace], rows: int, *, log: bool = False, letters: bool = False) -> YAxis:
    """Return the y axis for curves in a chart of ``rows`` rows; linear if no value has a logarithm."""
    known = [value for trace in traces for value in _finite((*trace.values, *trace.low, *trace.high))]
    log = log and any(value > 0 for value in known)
    shown = [value for value in known if not log or value > 0] or [0.0, 1.0]
    return y_axis(min(shown), max(shown), rows, dots=1 if letters else 4, log=log, cells=LABEL_CELLS)


def _finite(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]


def x_axis_lines(height: int, ticks: bool) -> int:
    """Return how many of a chart's lines its x axis takes."""
    if not ticks or height < X_AXIS_MIN_HEIGHT:
        return 0
    return 2 if height >= X_LINE_MIN_HEIGHT else 1


def _x_axis(axes: Axes | None, cells: int, label_cells: int, height: int, ascii_only: bool) -> tuple[Line, ...]:
    """Return the lines below the curves, unpadded; empty if they do not fit."""
    margin = " " * (label_cells + 1)
    if axes is None or not x_axis_lines(height, bool(axes.x_ticks)):
        return ()
    corner, bar, tick = ("+", "-", "+") if ascii_only else ("└", "─", "┬")
    line, text = [bar] * cells, ""
    for share, label in axes.x_ticks:
        at = min(cells - 1, max(0, round(share * (cells - 1))))
        start = min(max(0, at - len(label) // 2), cells - len(label))
        if start < (len(text) + 1 if text else 0):
            continue
        text = text.ljust(start) + label
        line[at] = tick
    named: Line = (Span(margin + text, "dim"),)
    if height < X_LINE_MIN_HEIGHT:
        return (named,)
    return ((Span(" " * label_cells + corner + "".join(line), "dim"),), named)


def _axis(label: str | None, labeled: bool, label_cells: int, ascii_only: bool) -> Span:
    tick = ("+" if labeled else "|") if ascii_only else ("┤" if labeled else "│")
    return Span(f"{label or '':>{label_cells}}{tick}", "dim")


class _Raster:
    """The dots of one chart while it is drawn; ``bottom`` and ``top`` are logarithms on a logarithmic axis."""

    def __init__(self, cells: int, rows: int, bottom: float, top: float, log: bool, ascii_only: bool, letters: bool) -> None:
        self.cells, self.rows, self.ascii_only, self.letters, self.log = cells, rows, ascii_only, letters, log
        self.per_cell, self.per_row = (1, 1) if letters else (2, 4)
        self.columns = cells * self.per_cell
        self.dots = rows * self.per_row
        self.bottom, self.top = bottom, top
        self.band = [0] * self.columns
        self.lines: list[tuple[list[int], str, str]] = []
        self.crosses: set[int] = set()
        self.rule: int | None = None
        self.notes: list[Note] = []

    def place(self, value: float) -> int | None:
        """Return the dot row of a value, 0 at the top; None if a logarithmic axis cannot show it."""
        if not self.log:
            return self.dot_row(value)
        return self.dot_row(math.log10(value)) if value > 0 else None

    def dot_row(self, place: float) -> int:
        """Return the dot row of a position on the axis."""
        # Halve first: the difference of two huge limits can overflow a float.
        span = self.top / 2 - self.bottom / 2
        share = (place / 2 - self.bottom / 2) / span if span else 0.5
        return min(self.dots - 1, max(0, self.dots - 1 - round(share * (self.dots - 1))))

    def add(self, trace: Trace, number: int) -> None:
        """Draw one trace and its band."""
        masks = [0] * self.columns
        self._add_band(trace.low, trace.high, masks if trace.solid else self.band)
        before: tuple[int, int] | None = None
        for column, value in enumerate(trace.values[: self.columns]):
            if value is None:
                continue
            if not math.isfinite(value):
                self.crosses.add(column // self.per_cell)
                before = None
                continue
            y = self.place(value)
            if y is None:
                before = None
                continue
            if before is None:
                masks[column] |= 1 << y
            else:
                _connect(masks, before, (column, y))
            before = (column, y)
        self.lines.append((masks, trace.style, trace.mark or ASCII_MARKS[number % len(ASCII_MARKS)]))

    def _add_band(self, low: Sequence[float | None], high: Sequence[float | None], masks: list[int]) -> None:
        for column, (small, large) in enumerate(zip(low, high, strict=False)):
            if column >= self.columns or small is None or large is None or not math.isfinite(small + large):
                continue
            lower, upper = self.place(small), self.place(large)
            if upper is not None:
                masks[column] |= _stretch(upper, self.dots - 1 if lower is None else lower)

    def _add_rule(self, cell: int, characters: list[list[str]], styles: list[list[str]]) -> None:
        """Draw a vertical line where no curve is."""
        for row in range(self.rows):
            if characters[row][cell] in (*FREE, "."):
                characters[row][cell], styles[row][cell] = ("|" if self.ascii_only else "│"), "text"

    def _add_notes(self, characters: list[list[str]], styles: list[list[str]]) -> None:
        """Write each note's mark into one of the top rows, and its text if that covers nothing; earlier notes win."""
        placed: list[tuple[Note, int]] = []
        for note in self.notes:
            row = next((row for row in range(min(NOTE_ROWS, self.rows)) if characters[row][note.column] in FREE), None)
            if row is not None:
                placed.append((note, row))
                characters[row][note.column], styles[row][note.column] = ("v" if self.ascii_only else "▾"), note.style
        for note, row in placed:
            after = range(note.column + 1, note.column + 1 + len(note.text))
            before = range(note.column - len(note.text), note.column)
            cells = after if after.stop < self.cells else before
            # One more cell on either side keeps two texts apart.
            room = range(cells.start - (cells is before), cells.stop + (cells is after))
            if all(0 <= cell < self.cells and characters[row][cell] in FREE for cell in room):
                for cell, char in zip(cells, note.text, strict=True):
                    characters[row][cell], styles[row][cell] = char, note.style

    def finished(self) -> list[Line]:
        """Return the rows; blanks take the style of their neighbor, so that there are few spans."""
        characters, styles = self._in_letters() if self.letters else self._in_braille()
        for cell in self.crosses:
            characters[0][cell] = "x" if self.ascii_only else "×"
            styles[0][cell] = "bad"
        self._add_notes(characters, styles)
        if self.rule is not None:
            self._add_rule(self.rule, characters, styles)
        return [_spans(*row) for row in zip(characters, styles, strict=True)]

    def _in_letters(self) -> tuple[list[list[str]], list[list[str]]]:
        """Return the character and the style of each cell, by row: a cell is one dot."""
        characters = [[" "] * self.cells for _ in range(self.rows)]
        styles = [[""] * self.cells for _ in range(self.rows)]
        for masks, style, mark in ((self.band, "track", "."), *self.lines):
            for cell, mask in enumerate(masks):
                while mask:
                    row = (mask & -mask).bit_length() - 1
                    characters[row][cell], styles[row][cell] = mark, style
                    mask &= mask - 1
        return characters, styles

    def _in_braille(self) -> tuple[list[list[str]], list[list[str]]]:
        """Return the character and the style of each cell, by row."""
        band = [[*map(_BANDS.__getitem__, row)] for row in self._dots(self.band)]
        characters = [list(row) for row in band]
        styles = [["band" if cell == BAND else "" for cell in row] for row in band]
        together: list[int] = []
        for masks, style, _ in self.lines:
            own = every = self._dots(masks)
            together = [*map(operator.or_, together, masks)] if together else masks
            if together is not masks:
                every = self._dots(together)
            for row in (row for row in range(self.rows) if own[row].count(_NO_DOTS) < self.cells):
                for cell, dots in enumerate(own[row]):
                    if dots != _NO_DOTS:
                        characters[row][cell] = _CELLS[every[row][cell]]
                        # The band continues behind its curve.
                        styles[row][cell] = f"band {style}" if band[row][cell] == BAND else style
        return characters, styles

    def _dots(self, masks: list[int]) -> list[list[str]]:
        """Return the dots of each cell by row, from the top: of its left and its right column, a hexadecimal digit each.

        Python does this for a whole row at once, which takes a tenth of the time of one cell after another.
        """
        columns = [f"{mask:0{self.rows}x}" for mask in masks]
        rows = [[*map(operator.add, row[::2], row[1::2])] for row in zip(*columns, strict=True)]
        rows.reverse()
        return rows


def _spans(characters: Sequence[str], styles: Sequence[str]) -> Line:
    spans: list[Span] = []
    text, style, begin = "", "", 0
    for wanted, cells in groupby(styles):
        end = begin + len(list(cells))
        if not wanted and style.startswith("band"):
            wanted = "text"  # a blank next to the band must not take its background
        elif wanted.startswith("band") and not style:
            style = "text"
        if wanted and style and wanted != style:
            if text:
                spans.append(Span(text, style))
            text = ""
        style = wanted or style
        text += "".join(characters[begin:end])
        begin = end
    return (*spans, Span(text, style or "text")) if text else tuple(spans)


def _stretch(upper: int, lower: int) -> int:
    return ((1 << (lower - upper + 1)) - 1) << upper


def _connect(masks: list[int], before: tuple[int, int], now: tuple[int, int]) -> None:
    """Draw from one point to the next; each column spans from the previous column's height to its own."""
    (x0, y0), (x1, y1) = before, now
    last = y0
    for x in range(x0 + 1, x1 + 1):
        y = round(y0 + (y1 - y0) * (x - x0) / (x1 - x0))
        if y > last:
            masks[x] |= _stretch(last + 1, y)
        elif y < last:
            masks[x] |= _stretch(y, last - 1)
        else:
            masks[x] |= 1 << y
        last = y
