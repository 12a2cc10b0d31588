"""When a GPU was slowed, and by what: a strip along the time of its graphs. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import groupby

from gputop.snapshot import Device
from gputop.tui.drawing.line import Line, Span, joined, line
from gputop.tui.state.device_state import slowed_by
from gputop.tui.state.view import View

SEVERITY = ("dim", "warn", "bad")
"""Styles of causes: if several slow a GPU at once, the strip shows the worst."""
Cause = tuple[str, str]
"""What slows the GPU, in words, and its style."""


def was_slowed(view: View, device: Device) -> bool:
    """Return whether anything has slowed the device since it was first seen."""
    return any(slowed_by(reasons) for _, reasons in view.history.throttling(device.uuid))


def slowed_strip(view: View, device: Device, start: float, end: float, cells: int) -> tuple[Line, Line]:
    """Return a strip of ``cells`` cells from ``start`` to ``end`` (seconds since the epoch), and its causes, worst first."""
    worst: list[Cause | None] = [None] * cells
    for since, until, cause in _times(view, device):
        if until <= start or since >= end:
            continue
        first = int((since - start) / (end - start) * cells)
        last = math.ceil((until - start) / (end - start) * cells)
        for column in range(max(0, first), min(cells, max(last, first + 1))):
            held = worst[column]
            if held is None or _severity(cause) > _severity(held):
                worst[column] = cause
    mark, rest = ("#", ".") if view.settings.ascii else ("▬", "·")
    strip = tuple(
        Span((rest if cause is None else mark) * len(list(same)), "track" if cause is None else cause[1])
        for cause, same in groupby(worst)
    )
    causes = sorted({cause for cause in worst if cause is not None}, key=_severity, reverse=True)
    return strip, joined((line((f"{mark} {words}", style)) for words, style in causes), Span("  "))


def _times(view: View, device: Device) -> Iterator[tuple[float, float, Cause]]:
    """Yield (start, end, cause) of each time for which something slowed the device."""
    changes = view.history.throttling(device.uuid)
    ends = [*(time for time, _ in changes[1:]), view.snapshot.time]
    for (since, reasons), until in zip(changes, ends, strict=True):
        for cause in slowed_by(reasons):
            yield since, until, cause


def _severity(cause: Cause) -> int:
    return SEVERITY.index(cause[1])
