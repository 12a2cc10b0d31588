"""The ticks of an x axis: steps, seconds since the start of a run, epochs, or times of day. Pure except for the time zone."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator

from gputop import units
from gputop.tui.drawing.charts.axis import Tick, step_ticks

_TIME_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200, 86400)
_CELLS_PER_TIME = 14
"""The least distance of two times on the axis; the longest takes 12 cells."""
_CELLS_PER_EPOCH = 10
"""The least distance of two epochs on the axis."""
_DAY_S = 86400


def x_ticks(kind: str, start: float, end: float, cells: int) -> tuple[Tick, ...]:
    """Return round positions between ``start`` and ``end`` with their texts, as many as ``cells`` cells hold.

    ``kind`` is "step", "time" (seconds since the start of a run), "epoch", or "clock" (seconds since 1970).
    """
    if kind == "step":
        return step_ticks(start, end, cells)
    if kind == "epoch":
        return _epoch_ticks(start, end, cells)
    step = _time_step(end - start, max(1, cells // _CELLS_PER_TIME))
    if kind == "time":
        return tuple((at, units.duration(at)) for at in _multiples(start, end, step))
    form = "%H:%M:%S" if step < 60 else "%H:%M" if step < _DAY_S and end - start < _DAY_S else "%d %b %H:%M"
    zone = _zone_s(start)
    return tuple((at - zone, units.clock(at - zone, form)) for at in _multiples(start + zone, end + zone, step))


def x_text(kind: str, x: float) -> str:
    """Return one position in words: "step 1 240", "at 12m03s", "epoch 2.4", "at 14:03:12"."""
    if kind == "step":
        return f"step {units.count(round(x))}"
    if kind == "epoch":
        return f"epoch {x:.2f}"
    return f"at {units.duration(x) if kind == 'time' else units.clock(x)}"


def _time_step(span: float, most: int) -> int:
    """Return the seconds between two ticks: at most ``most`` of them, but a second one wherever there can be one."""
    step = next((step for step in _TIME_STEPS_S if span / step <= most), None)
    if step is None:
        days = span / _DAY_S / most
        return _DAY_S * (math.ceil(days) if _DAY_S * math.ceil(days) <= span else math.floor(days))
    return step if step <= span else next((step for step in reversed(_TIME_STEPS_S) if step <= span), step)


def _multiples(start: float, end: float, step: float) -> Iterator[float]:
    first = math.ceil(start / step - 1e-9)
    yield from (n * step for n in range(first, math.floor(end / step + 1e-9) + 1))


def _epoch_ticks(start: float, end: float, cells: int) -> tuple[Tick, ...]:
    most = max(1, cells // _CELLS_PER_EPOCH)
    power = math.floor(math.log10(max(end - start, 1e-6))) - 2
    steps = (factor * 10.0**exponent for exponent in range(power, power + 5) for factor in (1, 2, 5))
    step = next(step for step in steps if (end - start) / step <= most)
    return tuple((at, f"{at:.6g}") for at in _multiples(start, end, step))


def _zone_s(at: float) -> float:
    """Return how far local time is ahead of UTC, so that ticks fall on whole local hours."""
    try:
        return float(time.localtime(at).tm_gmtoff)
    except (OverflowError, ValueError, OSError):
        return 0.0
