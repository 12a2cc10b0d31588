"""Everything known about one GPU: its readings over time, then its memory, links, health, processes and findings. Pure."""

from __future__ import annotations

from dataclasses import replace

from gputop.doctor.findings.finding import Finding
from gputop.snapshot import Device
from gputop.tui.drawing.doctor.pane import draw_doctor
from gputop.tui.drawing.gpus.about import (
    allocator_items,
    block,
    health_items,
    identity_items,
    link_items,
    memory_items,
    reading_items,
    slow_items,
)
from gputop.tui.drawing.gpus.over_time import draw_over_time, grid_of
from gputop.tui.drawing.gpus.rows import processes_by_device
from gputop.tui.drawing.line import Line, Span, clean, clip, joined, line, wrap
from gputop.tui.drawing.processes.pane import device_label, draw_processes
from gputop.tui.drawing.processes.rows import Order, process_rows
from gputop.tui.state.device_state import short_name, slowness, trouble
from gputop.tui.state.memory_split import memory_splits
from gputop.tui.state.view import View

GRAPHS_SHARE_LEAST = 0.45
"""The fraction of the lines that the graphs keep, however long the text is: the rest scrolls."""
FINDING_LINES = 6
"""Lines for the first finding about the GPU; each further one takes one."""
GONE = "This GPU is no longer listed: it has fallen off the bus, or it is hidden now. These are its last readings."


def gpu_lines(view: View, device: Device, span: int, width: int, height: int, gone: bool = False) -> tuple[Line, ...]:
    """Return the screen's lines. The graphs take what the text leaves of ``height``, and at least ``GRAPHS_SHARE_LEAST``.
    ``span`` is an index into ``over_time.SPANS``; ``gone`` says that the device is not in the newest snapshot.
    """
    above = _alarm(device, width, gone)
    split = memory_splits(view.snapshot, view.run_id).get(device.uuid) if not gone else None
    first = [
        *block("Slowed", slow_items(view, device), width),
        *block("Memory", memory_items(device, split, allocator_items(view, device) if not gone else ()), width),
        *_processes(view, device, width),
        *_findings(view, device, width),
    ]
    last = [
        *block("Health", health_items(device), width),
        *block("Links", link_items(device), width),
        *block("Names", identity_items(view, device), width),
    ]
    least = int(height * GRAPHS_SHARE_LEAST)
    words = len(above) + len(first) + len(last) + len(block("Readings", reading_items(device, ()), width))
    grid = grid_of(view, device, width, max(least, height - words))
    drawn = {graph.reading for graph in grid.graphs}
    graphs = draw_over_time(view, device, grid, span)
    readings = block("Readings", reading_items(device, drawn), width)
    return tuple(clip(part, width) for part in (*above, *graphs, *first, *readings, *last))


def gpu_head(view: View, device: Device, gone: bool = False) -> Line:
    """Return the text in the screen's header: the model, its state, and who works on it."""
    parts: list[Line] = [line((clean(short_name(device)), "value"))]
    broken = trouble(device)
    if gone:
        parts.append(line(("GONE", "bad")))
    elif broken is not None:
        parts.append(line((broken[0].upper(), "warn" if device.state == "stale" else "bad")))
    elif (slow := slowness(device)) is not None:
        parts.append(line((clean(slow).upper(), "bad")))
    names = {run.run_id: clean(run.name) for run in view.snapshot.runs}
    ranks = [
        f"rank {process.rank} of {names.get(process.run_id or '', 'a run')}"
        for process in processes_by_device(view).get(device.uuid, ())
        if process.rank is not None
    ]
    if ranks and not gone:
        parts.append(line((ranks[0] + (f" and {len(ranks) - 1} more" if len(ranks) > 1 else ""), "owner")))
    return joined(parts, Span("  "))


def gpu_name(device: Device) -> str:
    """Return "GPU 6"; of a MIG instance its number in its GPU."""
    return f"GPU {device_label(device)}"


def _alarm(device: Device, width: int, gone: bool) -> list[Line]:
    if gone:
        return wrap(GONE, width, "bad")
    broken = trouble(device)
    return wrap(clean(broken[1]), width, "warn" if device.state == "stale" else "bad") if broken is not None else []


def _uuids(view: View, device: Device) -> set[str]:
    """Return the device and the instances that it is divided into."""
    return {device.uuid, *(other.uuid for other in view.snapshot.devices if other.parent_uuid == device.uuid)}


def _processes(view: View, device: Device, width: int) -> list[Line]:
    uuids = _uuids(view, device)
    order = Order("mem")
    found = [row for row in process_rows(view.snapshot, order) if row.device is not None and row.device.uuid in uuids]
    if not found:
        return block("Processes", [("", "none listed", "dim")], width)
    return list(draw_processes(view, found, order, width).lines[: 1 + len(found)])


def findings_about(view: View, device: Device) -> tuple[Finding, ...]:
    """Return the doctor's findings about this device or its instances, the first one first."""
    uuids = _uuids(view, device)
    return tuple(finding for finding in view.findings if uuids & set(finding.devices))


def _findings(view: View, device: Device, width: int) -> list[Line]:
    found = findings_about(view, device)
    if not found:
        words, style = ("undecided", "text") if view.undecided else ("no problem found with this GPU", "ok")
        if view.loading:
            words, style = "looking for problems …", "dim"
        return block("Doctor", [("", words, style)], width)
    drawn = draw_doctor(replace(view, findings=found, undecided=()), width, FINDING_LINES + len(found) - 1)
    return [drawn.title, *drawn.lines]
