"""One or two GPUs as area graphs: utilization over time; next to it memory, power and temperature, if there is room. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gputop import units
from gputop.tui.drawing.gpus.past import area, column_end, recent_means, seconds_per_column
from gputop.tui.drawing.gpus.rows import Rows, is_hot, label_of, link_traffic, memory_bar, memory_text
from gputop.tui.drawing.line import Line, Span, beside, clean, fit, joined, line
from gputop.tui.drawing.line import width as cells_of
from gputop.tui.state.device_state import slowness, trouble

if TYPE_CHECKING:
    from gputop.snapshot import Device
    from gputop.tui.state.view import View

SECONDS_PER_COLUMN = 4.0
"""A graph of 76 columns shows five minutes."""
BLOCK_LINES_MIN = 5
GRID_LINES_MIN = 13
"""From this many lines on, a single GPU has two rows of graphs."""
SIDE_BY_SIDE_CELLS = 60
"""A single GPU has two graphs side by side if each gets this many cells."""
GAP = 2
"""Cells between two graphs."""


def graph_seconds(view: View, devices: Sequence[Device], width: int) -> float:
    """Return the seconds that a graph of ``draw_graphs`` shows."""
    beside = len(devices) > 1 or (width >= 2 * SIDE_BY_SIDE_CELLS and trouble(devices[0]) is None)
    return ((width - GAP) // 2 if beside else width) * seconds_per_column(SECONDS_PER_COLUMN, view.snapshot.interval_s)


def draw_graphs(rows: Rows, devices: Sequence[Device], width: int, height: int) -> list[Line]:
    """Return exactly ``height`` lines with the graphs of one or two devices."""
    if len(devices) == 1:
        return _single(rows, devices[0], width, height)
    half = (width - GAP) // 2
    return beside([_block(rows, device, half, height) for device in devices], half, GAP)


def _single(rows: Rows, device: Device, width: int, height: int) -> list[Line]:
    if width < 2 * SIDE_BY_SIDE_CELLS or trouble(device) is not None:
        return _block(rows, device, width, height)
    half = (width - GAP) // 2
    if height < GRID_LINES_MIN:
        return beside([_graph(rows, device, name, half, height) for name in ("utilization", "memory")], half, GAP)
    above = (height - 1) // 2
    upper = beside([_graph(rows, device, name, half, above) for name in ("utilization", "memory")], half, GAP)
    below = beside([_graph(rows, device, name, half, height - 1 - above) for name in ("power", "temperature")], half, GAP)
    return [*upper, (), *below]


def _block(rows: Rows, device: Device, width: int, height: int) -> list[Line]:
    """Return a line of readings, the utilization, and who holds the memory."""
    broken = trouble(device)
    mark, who = "▸" if device.uuid in rows.view.involved_devices else "", _who(rows, device)
    label = line((mark, "accent"), (label_of(device, 1), "value"), " " if who else "", *who)
    if broken is not None:
        style = "warn" if device.state == "stale" else "bad"
        words = fit(line(*label, " ", (f"{broken[0]} {clean(broken[1])}", style)), width)
        return [words, *[()] * (height - 1)]
    numbers = [
        line((units.percent(device.utilization_percent), "value")),
        _heat(device, limit=False),
        _of_limit(device),
        line((clean(slowness(device) or ""), "bad")),
        _labeled("SM", units.number(device.sm_activity_percent), device.sm_activity_percent),
        _labeled("tensor", units.number(device.tensor_activity_percent), device.tensor_activity_percent),
        line((f"{device.sm_clock_mhz:.0f} MHz", "text")) if device.sm_clock_mhz is not None else (),
        _links(device),
    ]
    memory = f" {memory_text(device, 10)}"
    bar = memory_bar(device, rows.splits.get(device.uuid), max(0, width - len(memory)), rows.view.settings.ascii)
    graph = area(_shares(rows, device, "utilization_percent", 100.0, width), height - 2, rows.view.settings.ascii)
    head: Line = label
    for number in numbers:
        # In order of importance; a part that does not fit completely is left out.
        longer = joined((head, number), Span("  "))
        head = longer if cells_of(longer) <= width else head
    return [fit(head, width), *graph, (*bar, Span(memory, "text"))]


def _graph(rows: Rows, device: Device, name: str, width: int, height: int) -> list[Line]:
    """Return one reading's graph under its line."""
    ascii_only = rows.view.settings.ascii
    total = float(device.memory_total_bytes or 0)
    sm = _labeled("SM", units.number(device.sm_activity_percent), device.sm_activity_percent)
    tensor = _labeled("tensor", units.number(device.tensor_activity_percent), device.tensor_activity_percent)
    readings: dict[str, tuple[str, float, str, list[Line]]] = {
        "utilization": (
            "utilization_percent",
            100.0,
            "",
            [line((units.percent(device.utilization_percent), "value")), sm, tensor, _who(rows, device), _links(device)],
        ),
        "memory": ("memory_used_bytes", total, "memory", [line((memory_text(device, 12), "value")), _split(rows, device)]),
        "power": ("power_w", device.power_limit_w or 0.0, "", [_of_limit(device)]),
        "temperature": ("temperature_c", device.temperature_slowdown_c or 100.0, "", [_heat(device), _clock(device)]),
    }
    reading, top, style, numbers = readings[name]
    mark = "▸" if device.uuid in rows.view.involved_devices and name == "utilization" else ""
    head = fit(line((mark, "accent"), (name, "dim"), "  ", *joined(numbers, Span("  "))), width)
    return [head, *area(_shares(rows, device, reading, top, width), height - 1, ascii_only, style)]


def _shares(rows: Rows, device: Device, reading: str, top: float, count: int) -> list[float | None]:
    if top <= 0:
        return [None] * count
    seconds = seconds_per_column(SECONDS_PER_COLUMN, rows.view.snapshot.interval_s)
    end = column_end(rows.view.snapshot.time, seconds)
    means = recent_means(rows.view.history.device(device.uuid, reading), end, seconds, count)
    return [None if mean is None else mean / top for mean in means]


def _labeled(name: str, text: str, value: float | None) -> Line:
    return line((f"{name} ", "dim"), (text, "text")) if value is not None else ()


def _who(rows: Rows, device: Device) -> Line:
    """Return the rank on the device, else the user."""
    who = rows.users.get(device.uuid)
    return (Span(who.text.strip(), who.style),) if who is not None else ()


def _links(device: Device) -> Line:
    nvlink, pcie = link_traffic(device)
    parts = (_labeled("nv", units.number(nvlink), nvlink), _labeled("pci", units.number(pcie, digits=1), pcie))
    known = [part for part in parts if part]
    return (*joined(known, Span(" ")), Span(" GB/s", "dim")) if known else ()


def _of_limit(device: Device) -> Line:
    if device.power_w is None:
        return ()
    limit = f"/{device.power_limit_w:.0f}" if device.power_limit_w is not None else ""
    return line((f"{device.power_w:.0f}{limit} W", "text"))


def _heat(device: Device, *, limit: bool = True) -> Line:
    if device.temperature_c is None:
        return ()
    slows = f" (slows at {device.temperature_slowdown_c:.0f})" if limit and device.temperature_slowdown_c is not None else ""
    return line((f"{device.temperature_c:.0f} °C", "bad" if is_hot(device) else "text"), (slows, "dim"))


def _clock(device: Device) -> Line:
    slow = slowness(device)
    clock = line((f"{device.sm_clock_mhz:.0f} MHz", "text")) if device.sm_clock_mhz is not None else ()
    return joined((clock, line((clean(slow), "bad")) if slow else ()), Span("  "))


def _split(rows: Rows, device: Device) -> Line:
    split = rows.splits.get(device.uuid)
    if split is None:
        return ()
    parts = (("this run", split.run), ("others", split.other), ("driver", split.driver), ("no listed process", split.unlisted))
    return joined((line((f"{name} {units.gib(held)}", "dim")) for name, held in parts if held), Span(" · ", "dim"))
