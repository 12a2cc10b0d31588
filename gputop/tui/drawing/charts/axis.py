"""The axes of charts: round limits, ticks at even distances, and their texts. Pure; imports no other drawing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

FLAT_SHARE = 1e-5
"""Values that differ by less than this fraction of their size count as one: the rest is rounding."""
Y_MAX, SPAN_MIN = 1e300, 1e-290
"""Largest magnitude and smallest span of an axis: beyond them, floating point can represent neither ticks nor distances."""
EVEN_MIN_ROWS = 7
"""From this many rows on, ticks are a whole number of rows apart; below, only the ends have one."""
LABEL_CELLS_MAX = 7
"""The longest label of a y axis."""

_FACTORS = (1.0, 2.0, 2.5, 5.0)
"""Ticks are apart by one of these times a power of ten."""
_TICKS_MIN, _TICKS_MAX = 3, 9
_STEP_LABEL_GAP = 3
_STEP_CELLS_MIN = 12
"""The least distance of the labels of steps: the blanks between two, and from the start of one to that of the next."""
_LARGE = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_PLAIN_MIN, _PLAIN_MAX, _LARGE_MAX = 1e-3, 1e5, 1e15

Tick = tuple[float, str]


@dataclass(frozen=True, slots=True)
class YAxis:
    """The values at the lowest and highest dot of a chart, and its ticks; decimal logarithms if ``log``."""

    low: float
    high: float
    ticks: tuple[Tick, ...]
    log: bool = False


def y_axis(low: float, high: float, rows: int, *, dots: int = 4, log: bool = False, cells: int = LABEL_CELLS_MAX) -> YAxis:
    """Return an axis from a round value below ``low`` to one above ``high``.

    Args:
        low: The smallest value.
        high: The largest value.
        rows: Text rows of the chart; with enough of them, ticks are a whole number of rows apart.
        dots: Dot rows in a text row.
        log: The axis is logarithmic; ``low`` and ``high`` are above 0.
        cells: Most cells of a label.
    """
    low, high = (min(Y_MAX, max(-Y_MAX, value)) for value in (low, high))
    if log:
        return _log_axis(math.log10(low), math.log10(high), rows, dots)
    if is_flat(low, high):
        room = max(abs(low), abs(high)) * 0.1
        room = room if room > SPAN_MIN else 1.0
        low, high = low - room, high + room
    if rows >= EVEN_MIN_ROWS:
        axes = []
        for bottom, step, apart in _even(low, high, rows, dots, _steps(low, high)):
            values = [bottom + step * n for n in range((rows - 1) // apart + 1)]
            ticks = _labeled(values, step, cells)
            axes.append(YAxis(bottom, bottom + step * (rows * dots - 1) / (apart * dots), ticks))
            if len(ticks) == len(values):
                return axes[-1]
        return axes[0]
    step = next(step for step in _steps(low, high) if step >= (high - low) / 8)
    bottom, top = math.floor(low / step) * step, math.ceil(high / step) * step
    return YAxis(bottom, top, _labeled([bottom, top], step, cells))


def is_flat(low: float, high: float) -> bool:
    """Return whether values from ``low`` to ``high`` are the same except for rounding."""
    return high - low <= max(SPAN_MIN, FLAT_SHARE * max(abs(low), abs(high)))


def fixed_axis(low: float, high: float, rows: int, unit: str = "") -> YAxis:
    """Return an axis with the given limits; as many round ticks as have two rows each."""
    step = next(step for step in _steps(low, high) if (high - low) / step <= max(1, rows // 2))
    first = math.ceil(low / step - 1e-9)
    values = [step * n for n in range(first, math.floor(high / step + 1e-9) + 1)]
    return YAxis(low, high, tuple((value, text + unit) for value, text in _labeled(values, step, LABEL_CELLS_MAX)))


def _steps(low: float, high: float) -> Iterator[float]:
    """Yield round numbers in ascending order, from well below the span to well above it."""
    power = math.floor(math.log10(high - low)) - 2
    for exponent in range(power, power + 5):
        for factor in _FACTORS:
            yield factor * 10.0**exponent


def _even(low: float, high: float, rows: int, dots: int, steps: Iterable[float]) -> Iterator[tuple[float, float, int]]:
    """Yield (lowest tick, step, rows between ticks), those first with which the values fill most of the chart."""
    found: list[tuple[float, float, float, int]] = []
    for step in steps:
        bottom = math.floor(low / step + 1e-9) * step
        for apart in range(max(2, rows // _TICKS_MAX), max(2, (rows - 1) // (_TICKS_MIN - 1)) + 1):
            reach = step * (rows * dots - 1) / (apart * dots)
            # The slack is rounding, far below half a dot.
            if bottom + reach >= high - 1e-9 * reach:
                found.append((reach, bottom, step, apart))
    for _, bottom, step, apart in sorted(found):
        yield bottom, step, apart


def _log_axis(low: float, high: float, rows: int, dots: int) -> YAxis:
    if high - low >= 2 and rows >= EVEN_MIN_ROWS:
        decades = (float(step) for step in (1, 2, 3, 5, 10, 20, 50, 100, 200, 500))
        bottom, step, apart = next(_even(low, high, rows, dots, decades))
        top = bottom + step * (rows * dots - 1) / (apart * dots)
        return YAxis(
            bottom, top, tuple((bottom + step * n, _power(bottom + step * n)) for n in range((rows - 1) // apart + 1)), True
        )
    bottom, top = _round_log(low, up=False), _round_log(high, up=True)
    if top <= bottom:
        top = bottom + 1
    places = [bottom, top]
    if rows >= EVEN_MIN_ROWS:
        power = math.floor(bottom)
        inner = [power + more + math.log10(factor) for more in range(math.ceil(top) - power + 1) for factor in (1, 2, 5)]
        places = [place for place in inner if bottom - 1e-9 <= place <= top + 1e-9]
    return YAxis(bottom, top, tuple((place, _power(place)) for place in places), True)


def _round_log(place: float, *, up: bool) -> float:
    """Return the logarithm of the next 1, 2 or 5 times a power of ten."""
    power = math.floor(place + 1e-12)
    steps = [power + math.log10(factor) for factor in (1, 2, 5, 10)]
    if up:
        return next((step for step in steps if step >= place - 1e-12), steps[-1])
    return next((step for step in reversed(steps) if step <= place + 1e-12), steps[0])


def _power(place: float) -> str:
    value = 10.0 ** min(300.0, max(-300.0, place))
    return _exponent(f"{value:.3g}")


def _exponent(text: str) -> str:
    """Return a number without the padding of its exponent: 1e+05 -> 1e5."""
    return text.replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")


def _labeled(values: Sequence[float], step: float, cells: int) -> tuple[Tick, ...]:
    """Return the values with texts in one form, short enough for an axis and different from one another."""
    biggest = max(map(abs, values))
    scale, suffix = 1.0, ""
    if _PLAIN_MAX <= biggest < _LARGE_MAX:
        scale, suffix = next((scale, suffix) for scale, suffix in _LARGE if biggest >= scale)
    elif 0 < biggest < _PLAIN_MIN or biggest >= _LARGE_MAX:
        exponent = math.floor(math.log10(biggest))
        scale, suffix = 10.0**exponent, f"e{exponent}"
    digits = _digits([value / scale for value in values], step / scale)
    ticks: list[Tick] = []
    for value in values:
        number = value / scale
        text = f"{number:.{digits}f}{suffix}" if abs(value) > step * 1e-6 else "0"
        if len(text) > cells:
            short = (_exponent(f"{value:.{precision}e}") for precision in (1, 0))
            text = next((text for text in short if len(text) <= cells), f"{value:.0e}"[:cells])
        if all(text != other for _, other in ticks):
            ticks.append((value, text))
    return tuple(ticks)


def _digits(numbers: Sequence[float], step: float) -> int:
    """Return how many digits after the point the numbers need; a difference far below ``step`` does not count."""
    fine = 1e-6 * step
    return next((digits for digits in range(7) if all(abs(round(x, digits) - x) <= fine for x in numbers)), 7)


def first_step(first: float, last: float) -> float:
    """Return where an axis of steps begins: at 0, unless a run resumed from a checkpoint far from it."""
    return 0.0 if 0 <= first <= 0.1 * (last - first) + 1 else first


def wide_enough(start: float, end: float) -> float:
    """Return an end that gives even a single value an axis."""
    return end if end - start > abs(start) * 1e-12 else start + max(1.0, abs(start) * 1e-9)


def step_ticks(start: float, end: float, cells: int) -> tuple[Tick, ...]:
    """Return round steps between ``start`` and ``end`` with their texts, as many as ``cells`` cells hold side by side."""
    apart = max(_STEP_CELLS_MIN, len(step_text(end)) + _STEP_LABEL_GAP)
    most = max(1, cells // apart)
    step = next((step for step in _whole_steps() if (end - start) / step <= most), None)
    if step is None:
        return ((start, step_text(start)),)
    first = math.ceil(start / step)
    return tuple((n * step, step_text(n * step)) for n in range(first, math.floor(end / step) + 1))


def _whole_steps() -> Iterator[float]:
    for exponent in range(25):
        yield from (factor * 10.0**exponent for factor in _FACTORS if exponent or factor != 2.5)


def step_text(step: float) -> str:
    """Return a round number of steps: 500, "2.5k", "1.25M"."""
    for scale, suffix in _LARGE:
        if abs(step) >= scale:
            return f"{step / scale:.4g}{suffix}"
    return f"{step:.0f}"
