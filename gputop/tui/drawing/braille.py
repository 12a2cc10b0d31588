"""Line charts of braille dots, two by four a cell, with axes; plain characters where only ASCII works. Pure.

A column of dots is one integer, a bit per dot from the top: filling a stretch is a shift, a cell is four bits of two
neighbouring columns. Lines of one chart cost well under a millisecond, whatever the run's length, because the caller
brings columns and not points.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from gputop import units
from gputop.tui.drawing.line import Line, Span, fit, text_width

LABEL_CELLS = 6
AXIS_CELLS = LABEL_CELLS + 1
X_AXIS_MIN_HEIGHT = 5
"""From so many rows on, the last one holds the labels of the x axis."""
_MIDDLE_LABEL_MIN_ROWS = 7
_SMALLEST_STEP = 1e-300

_LEFT = tuple(sum(bit for dot, bit in enumerate((0x01, 0x02, 0x04, 0x40)) if nibble >> dot & 1) for nibble in range(16))
_RIGHT = tuple(sum(bit for dot, bit in enumerate((0x08, 0x10, 0x20, 0x80)) if nibble >> dot & 1) for nibble in range(16))
ASCII_MARKS = "*+ox#@%&"
"""What draws the curves without braille, the first curve first."""


@dataclass(frozen=True, slots=True)
class Trace:
    """One curve: a value per dot column (None: nothing there; NaN: the value was NaN or infinite), and its band."""

    values: Sequence[float | None]
    style: str = "rank0"
    low: Sequence[float | None] = field(default_factory=tuple)
    high: Sequence[float | None] = field(default_factory=tuple)


def dot_columns(width: int, ascii_only: bool = False) -> int:
    """Return how many columns a chart of ``width`` cells has; every trace brings so many values."""
    return max(0, width - AXIS_CELLS) * (1 if ascii_only else 2)


def chart(
    traces: Sequence[Trace],
    width: int,
    height: int,
    *,
    x_labels: tuple[str, str] = ("", ""),
    log: bool = False,
    ascii_only: bool = False,
) -> tuple[Line, ...]:
    """Draw curves over one pair of axes in exactly ``height`` lines of ``width`` cells.

    A later trace lies over an earlier one. NaN and infinities are marked by a cross in the top row of their column. A
    logarithmic axis leaves out what is not positive, and is linear when nothing is.
    """
    if width <= AXIS_CELLS or height <= 0:
        return tuple(fit((), max(0, width)) for _ in range(max(0, height)))
    has_x_axis = height >= X_AXIS_MIN_HEIGHT and any(x_labels)
    rows = height - 1 if has_x_axis else height
    known = [value for trace in traces for value in _finite((*trace.values, *trace.low, *trace.high))]
    log = log and any(value > 0 for value in known)
    bottom, top = _limits([value for value in known if not log or value > 0], log)
    raster = _Raster(width - AXIS_CELLS, rows, bottom, top, log, ascii_only)
    for number, trace in enumerate(traces):
        raster.add(trace, number)
    labels = _labels(bottom, top, rows, log)
    lines = [(*_axis(labels.get(row), row in labels, ascii_only), *drawn) for row, drawn in enumerate(raster.finished())]
    if has_x_axis:
        lines.append(_x_axis(x_labels, width))
    return tuple(fit(line, width) for line in lines)


def _finite(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]


def _x_axis(labels: tuple[str, str], width: int) -> Line:
    room = width - AXIS_CELLS
    left, right = labels
    gap = room - text_width(left) - text_width(right)
    text = left + " " * gap + right if gap > 0 else right[:room]
    return (Span(" " * AXIS_CELLS + text, "dim"),)


def _axis(label: str | None, labelled: bool, ascii_only: bool) -> Line:
    tick = ("+" if labelled else "|") if ascii_only else ("┤" if labelled else "│")
    return (Span(f"{label or '':>{LABEL_CELLS}}{tick}", "dim"),)


def _labels(bottom: float, top: float, rows: int, log: bool) -> dict[int, str]:
    labels = {rows - 1: _label(bottom), 0: _label(top)}
    if rows >= _MIDDLE_LABEL_MIN_ROWS and rows % 2:
        labels[rows // 2] = _label(math.sqrt(bottom * top) if log else (bottom + top) / 2)
    return labels


def _label(value: float) -> str:
    for digits in (4, 3, 2, 1):
        text = units.metric(value, digits)
        if len(text) <= LABEL_CELLS:
            return text
    return f"{value:.0e}".replace("e+0", "e").replace("e-0", "e-")[:LABEL_CELLS]


def _limits(values: Sequence[float], log: bool) -> tuple[float, float]:
    """Return round numbers below and above all values, so that the axis moves seldom."""
    if not values:
        return (0.1, 1.0) if log else (0.0, 1.0)
    low, high = min(values), max(values)
    if log:
        low, high = _round_log(low, math.floor), _round_log(high, math.ceil)
        return (low, high) if high > low else (low, low * 10)
    if high - low <= abs(high) * 1e-9:
        margin = abs(high) * 0.1 or 1.0
        low, high = low - margin, high + margin
    step = _nice(high / 4 - low / 4)
    below, above = math.floor(low / step) * step, math.ceil(high / step) * step
    if not (math.isfinite(below) and math.isfinite(above) and above > below):
        return low, high
    return below, above


def _nice(rough: float) -> float:
    power = 10.0 ** math.floor(math.log10(max(rough, _SMALLEST_STEP)))
    return next((factor * power for factor in (1, 2, 2.5, 5) if factor * power >= rough), 10 * power)


def _round_log(value: float, direction: object) -> float:
    power = 10.0 ** math.floor(math.log10(max(value, _SMALLEST_STEP)))
    steps = [factor * power for factor in (1, 2, 5, 10)]
    if direction is math.floor:
        return next((step for step in reversed(steps) if step <= value), power)
    return next((step for step in steps if step >= value), steps[-1])


class _Raster:
    """The dots of one chart while it is drawn."""

    def __init__(self, cells: int, rows: int, bottom: float, top: float, log: bool, ascii_only: bool) -> None:
        self.cells, self.rows, self.ascii_only, self.log = cells, rows, ascii_only, log
        self.per_cell, self.per_row = (1, 1) if ascii_only else (2, 4)
        self.columns = cells * self.per_cell
        self.dots = rows * self.per_row
        self.bottom, self.top = (math.log10(bottom), math.log10(top)) if log else (bottom, top)
        self.band = [0] * self.columns
        self.lines: list[tuple[list[int], str, str]] = []
        self.crosses: set[int] = set()

    def place(self, value: float) -> int | None:
        """Return the dot row of a value, 0 at the top."""
        if self.log:
            if value <= 0:
                return None
            value = math.log10(value)
        # Halves first: the difference of two huge limits may not fit a float.
        span = self.top / 2 - self.bottom / 2
        share = (value / 2 - self.bottom / 2) / span if span else 0.5
        return min(self.dots - 1, max(0, self.dots - 1 - round(share * (self.dots - 1))))

    def add(self, trace: Trace, number: int) -> None:
        """Draw one trace and its band."""
        self._add_band(trace.low, trace.high)
        masks = [0] * self.columns
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
        self.lines.append((masks, trace.style, ASCII_MARKS[number % len(ASCII_MARKS)]))

    def _add_band(self, low: Sequence[float | None], high: Sequence[float | None]) -> None:
        for column, (small, large) in enumerate(zip(low, high, strict=False)):
            if column >= self.columns or small is None or large is None or not math.isfinite(small + large):
                continue
            lower, upper = self.place(small), self.place(large)
            if upper is not None:
                self.band[column] |= _stretch(upper, self.dots - 1 if lower is None else lower)

    def cells_of(self, masks: list[int]) -> Iterator[tuple[int, int, int]]:
        """Yield (row, cell, dots of the cell) where there are dots: a curve touches few of all cells."""
        if self.ascii_only:
            for cell, mask in enumerate(masks):
                while mask:
                    row = (mask & -mask).bit_length() - 1
                    yield row, cell, 1
                    mask &= mask - 1
            return
        for cell in range(self.cells):
            left, right = masks[2 * cell], masks[2 * cell + 1]
            both = left | right
            while both:
                shift = ((both & -both).bit_length() - 1) & ~3
                yield shift >> 2, cell, _LEFT[left >> shift & 15] | _RIGHT[right >> shift & 15]
                both &= ~(15 << shift)

    def finished(self) -> list[Line]:
        """Return the rows; blanks take the style of their neighbor, so that there are few spans."""
        characters = [[" "] * self.cells for _ in range(self.rows)]
        styles = [[""] * self.cells for _ in range(self.rows)]
        for row, cell, dots in self.cells_of(self.band):
            characters[row][cell] = "." if self.ascii_only else chr(0x2800 + dots)
            styles[row][cell] = "track"
        drawn: dict[tuple[int, int], int] = {}
        for masks, style, mark in self.lines:
            for row, cell, dots in self.cells_of(masks):
                drawn[row, cell] = dots = drawn.get((row, cell), 0) | dots
                characters[row][cell] = mark if self.ascii_only else chr(0x2800 + dots)
                styles[row][cell] = style
        for cell in self.crosses:
            characters[0][cell] = "x" if self.ascii_only else "×"
            styles[0][cell] = "bad"
        return [_spans(*row) for row in zip(characters, styles, strict=True)]


def _spans(characters: Sequence[str], styles: Sequence[str]) -> Line:
    spans: list[Span] = []
    text, style = "", ""
    for char, wanted in zip(characters, styles, strict=True):
        if wanted and style and wanted != style:
            spans.append(Span(text, style))
            text = ""
        style = wanted or style
        text += char
    return (*spans, Span(text, style or "text")) if text else tuple(spans)


def _stretch(upper: int, lower: int) -> int:
    return ((1 << (lower - upper + 1)) - 1) << upper


def _connect(masks: list[int], before: tuple[int, int], now: tuple[int, int]) -> None:
    """Draw from one point to the next; each column holds the way from the height before it to its own."""
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
