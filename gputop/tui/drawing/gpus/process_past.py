"""One process's use of its GPUs over time: memory and SM utilization, as area graphs. Pure."""

from __future__ import annotations

from gputop import units
from gputop.history.history import PROCESS_READINGS, History
from gputop.snapshot import Device, DeviceUse, Process
from gputop.tui.drawing.gpus.over_time import (
    GAP,
    HOLD_INTERVALS,
    TWO_COLUMNS_CELLS,
    Stretch,
    heading,
    held_means,
    min_mean_max,
    time_axis,
)
from gputop.tui.drawing.gpus.past import area, column_end
from gputop.tui.drawing.line import Line, beside, line
from gputop.tui.state.view import View

GRAPH_LINES = 4
"""Lines of a graph with its heading."""
DEVICES_MOST = 4
"""The GPUs of a process that are drawn: few processes use more, and the text lists them all."""
STRETCH_LEAST_S = 60.0
"""The shortest time that a graph covers."""


def process_past_lines(view: View, process: Process, cells: int) -> list[Line]:
    """Return a process's graphs over the time for which this screen has known it; nothing if no reading is known."""
    drawn = [use for use in process.devices if _began(view.history, process, use) is not None][:DEVICES_MOST]
    began = [time for use in drawn if (time := _began(view.history, process, use)) is not None]
    if not began:
        return []
    columns = 2 if cells >= TWO_COLUMNS_CELLS else 1
    width = (cells - GAP * (columns - 1)) // columns
    stretch = _stretch(view, min(began), width)
    devices = {device.uuid: device for device in view.snapshot.devices}
    lines: list[Line] = []
    for use in drawn:
        graphs = [_graph(view, process, use, devices.get(use.device_uuid), name, stretch, width) for name in PROCESS_READINGS]
        lines += beside(graphs, width, GAP) if columns == 2 else [part for graph in graphs for part in graph]
    return [*lines, *beside([[time_axis(stretch, width)]] * columns, width, GAP)]


def _began(history: History, process: Process, use: DeviceUse) -> float | None:
    """Return when a reading of a process on a device was first known."""
    found = (history.process(process, use.device_uuid, name) for name in PROCESS_READINGS)
    return min((span[0] for series in found if series is not None and (span := series.span()) is not None), default=None)


def _stretch(view: View, began: float, columns: int) -> Stretch:
    now = view.snapshot.time
    seconds = max(STRETCH_LEAST_S, now - began) / max(1, columns)
    end = column_end(now, seconds)
    return Stretch(end - seconds * columns, end)


def _graph(
    view: View, process: Process, use: DeviceUse, device: Device | None, reading: str, stretch: Stretch, cells: int
) -> list[Line]:
    is_memory = reading == "memory_used_bytes"
    series = view.history.process(process, use.device_uuid, reading)
    hold_s = HOLD_INTERVALS * view.snapshot.interval_s
    means = held_means(series, stretch.start, stretch.end, cells, hold_s)
    total = device.memory_total_bytes if device is not None else None
    top = float(total or max((mean for mean in means if mean is not None), default=0.0)) if is_memory else 100.0
    shares = [None if mean is None or not top else mean / top for mean in means]
    value = getattr(use, reading)
    text = units.bytes_text(value) if is_memory else units.percent(value)
    gpu = f"GPU {device.index}" if device is not None else "GPU"
    extremes = min_mean_max(units.gib_or_mib if is_memory else units.number, [series] if series is not None else [], stretch)
    numbers = line((text, "dim" if value is None else "value"))
    head = heading(f"{gpu} {'memory' if is_memory else 'SM'}", numbers, extremes, cells, view.settings.ascii)
    return [head, *area(shares, GRAPH_LINES - 1, view.settings.ascii, "memory" if is_memory else "")]
