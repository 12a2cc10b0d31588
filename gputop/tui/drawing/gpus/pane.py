"""The GPU pane: area graphs of one or two devices, else a row per device in as many columns as it takes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gputop import units
from gputop.device import NO_GPU_CODES
from gputop.tui.drawing.gpus.graphs import BLOCK_LINES_MIN, draw_graphs, graph_seconds
from gputop.tui.drawing.gpus.heading import heading
from gputop.tui.drawing.gpus.past import row_seconds
from gputop.tui.drawing.gpus.rows import Layout, cut_trouble, processes_by_device, row_layout, rows_of, unmeasured
from gputop.tui.drawing.line import Drawing, Line, Span, clean, clip, fit, joined, line, plain, wrap
from gputop.tui.drawing.line import width as cells_of
from gputop.tui.state.device_state import short_name, throttle
from gputop.tui.state.view import View

if TYPE_CHECKING:
    from gputop.snapshot import Device, Process

GRAPHS_MOST = 2
"""Up to this many devices have graphs; more have a row each."""
GRAPH_LINES = (16, 8)
"""Lines for the graphs of one and of two devices."""
_COLUMNS = ((8, 1), (16, 2), (24, 3))
"""(devices, columns of rows) up to which they are drawn; beyond, there are four."""
COLUMN_CELLS_MIN = 19
GAP = 2
NARROW_CELLS_MIN = 13
"""How few cells a row can have if more columns are needed to show every device: its index, its utilization, its memory."""
NARROW_GAP = 0
"""A narrow row needs no gap before it: its first cell, the mark, is usually blank."""
SHARE_MOST = 0.6
"""Most of the dashboard's rows that the devices may take while there are other panes."""


def draw_gpus(view: View, width: int, height: int) -> Drawing:
    """Return the GPU pane for ``width`` cells and ``height`` lines.

    The parts of a row that no device measures take no room. The density "compact" has rows only, "full" a second line for
    each row.
    """
    devices = ordered(view.snapshot.devices)
    title = line(("GPU" if len(devices) == 1 else "GPUs", "title"), (_title_note(devices), "dim"))
    if not devices:
        return Drawing(title, _no_devices(view, width))
    note = _hint(view, width)
    rows = rows_of(view)
    label = 3 if any(device.kind == "virtual" for device in devices) else 2
    if _has_graphs(view, devices, height):
        graphs = tuple(clip(part, width) for part in draw_graphs(rows, devices, width, height))
        return Drawing(title, graphs, _reach(graph_seconds(view, devices, width)))
    full = view.settings.density == "full"
    count, gap, cells = _columns(devices, width, height, full)
    layout = row_layout(cells, label, _blank_parts(view, devices))
    lines: list[Line] = []
    users = _users(view) if full else {}
    models = {device.name for device in devices if device.kind != "mig" and device.name}
    for device in devices:
        lines.append(rows.draw(device, layout, cells))
        if full and device.kind != "mig":
            lines.append(_detail(device, users.get(device.uuid, ""), len(models) > 1, label, width))
    if count > 1:
        lines = _side_by_side(lines, count, gap, cells)
    lines += _troubles(devices, layout, cells, width)
    if note and height - len(lines) > len(note):
        lines += [(), *note]
    past = _reach(layout.past * row_seconds(view))
    names = heading(layout, cells, plain(past))
    # Where the column is too short to name it, the end of the rule says how far back it reaches.
    subtitle = past if cells_of(past) > layout.past > 0 else ()
    return Drawing(title, tuple(lines), subtitle, heading=_side_by_side([names] * count, count, gap, cells)[0])


def _blank_parts(view: View, devices: Sequence[Device]) -> frozenset[str]:
    """Return the parts of a row that no device measures.

    There are none in the first reading, which has no rates, such as that of the CPU: nothing moves when the second has them.
    """
    host = view.snapshot.host
    return unmeasured(devices) if host.cpu_percent is not None or host.source != "nvml" else frozenset()


def _reach(seconds: float) -> Line:
    """Return how far back the history reaches: "last 5m"."""
    return line((f"last {units.duration(seconds).removesuffix('00s')}", "dim"))


class Place(NamedTuple):
    """Where the pane draws a device: its first line, how many lines, and its cells [start, end)."""

    device: Device
    line: int
    lines: int
    start: int
    end: int


def places(view: View, width: int, height: int) -> tuple[Place, ...]:
    """Return where ``draw_gpus`` draws each device for the same ``width`` and ``height``, in the pane's order."""
    devices = ordered(view.snapshot.devices)
    if _has_graphs(view, devices, height):
        cells = (width - GAP * (len(devices) - 1)) // len(devices) if devices else width
        return tuple(
            Place(device, 0, height, place * (cells + GAP), place * (cells + GAP) + cells)
            for place, device in enumerate(devices)
        )
    full = view.settings.density == "full"
    count, gap, cells = _columns(devices, width, height, full)
    deep = -(-len(devices) // count)
    found: list[Place] = []
    at = 0
    for place, device in enumerate(devices):
        column, row = divmod(place, deep)
        lines = 2 if full and device.kind != "mig" else 1
        found.append(Place(device, at if full else row, lines, column * (cells + gap), column * (cells + gap) + cells))
        at += lines
    return tuple(found)


def lines_wanted(view: View, width: int, room: int) -> int:
    """Return how many of ``room`` lines the devices and the hint can use: enough for every device, if the columns allow."""
    devices = view.snapshot.devices
    if not devices:
        return len(_no_devices(view, width))
    note = _hint(view, width)
    if _has_graphs(view, devices, room):
        return max(BLOCK_LINES_MIN, min(GRAPH_LINES[len(devices) - 1], room // 3))
    if view.settings.density == "full":
        return _lines(devices, 1, width, width) + sum(device.kind != "mig" for device in devices)
    count, _, cells = _columns(devices, width, int(room * SHARE_MOST) - 1, full=False)
    return _lines(devices, count, cells, width) + (len(note) + 1 if note else 0)


def _troubles(devices: Sequence[Device], layout: Layout, cells: int, width: int) -> list[Line]:
    """Return the lines of ``width`` cells below the rows, about the devices in trouble that their rows cut."""
    return [
        part for sentence in cut_trouble(devices, layout, cells) for part in wrap(plain(sentence), width, sentence[0].style)
    ]


def _has_graphs(view: View, devices: Sequence[Device], height: int) -> bool:
    few = len(devices) <= GRAPHS_MOST and all(device.kind != "mig" for device in devices)
    return few and view.settings.density == "auto" and height >= BLOCK_LINES_MIN and not _hint(view, 80)


def _columns(devices: Sequence[Device], width: int, height: int, full: bool) -> tuple[int, int, int]:
    """Return how many columns of rows there are, the cells between two, and the cells of each.

    There are more and narrower columns where ``height`` lines would not show every device otherwise.
    """
    if full:
        return 1, GAP, width
    wanted = next((columns for most, columns in _COLUMNS if len(devices) <= most), 4)
    usual = max(1, min(wanted, (width + GAP) // (COLUMN_CELLS_MIN + GAP)))
    most = max(usual, (width + NARROW_GAP) // (NARROW_CELLS_MIN + NARROW_GAP))
    found = usual, GAP, (width - GAP * (usual - 1)) // usual
    for count in range(usual + 1, most + 1):
        if _lines(devices, found[0], found[2], width) <= height:
            break
        found = count, NARROW_GAP, (width - NARROW_GAP * (count - 1)) // count
    return found


def _lines(devices: Sequence[Device], count: int, cells: int, width: int) -> int:
    """Return how many lines the devices take in this many columns, with what their rows cut."""
    return -(-len(devices) // count) + len(_troubles(devices, row_layout(cells, 2), cells, width))


def _side_by_side(lines: Sequence[Line], count: int, gap: int, cells: int) -> list[Line]:
    """Return the lines in columns, down the first and then down the next."""
    deep = -(-len(lines) // count)
    padded = [*lines, *[()] * (deep * count - len(lines))]
    columns = [padded[start : start + deep] for start in range(0, deep * count, deep)]
    return [
        tuple(span for place, part in enumerate(parts) for span in ((Span(" " * gap),) if place else ()) + fit(part, cells))
        for parts in zip(*columns, strict=True)
    ]


def _title_note(devices: tuple[Device, ...]) -> str:
    virtual = sum(device.kind == "virtual" for device in devices)
    return f" · {virtual} virtual" if virtual else ""


def ordered(devices: tuple[Device, ...]) -> tuple[Device, ...]:
    """Return the devices in the order of the pane: each MIG instance after its parent GPU."""
    listed = {device.uuid for device in devices}
    children: dict[str, list[Device]] = {}
    for device in devices:
        if device.parent_uuid in listed and device.parent_uuid is not None:
            children.setdefault(device.parent_uuid, []).append(device)
    inside = {child.uuid for group in children.values() for child in group}
    return tuple(one for device in devices if device.uuid not in inside for one in (device, *children.get(device.uuid, ())))


def _detail(device: Device, who: str, several_models: bool, indent: int, width: int) -> Line:
    """Return the second line of a device: its model, how its units are used, who uses it."""
    parts: list[Line] = []
    if device.kind == "virtual" or several_models:
        parts.append(line((clean(short_name(device)), "dim")))
    slowed = throttle(device) if device.state == "ok" else None
    if slowed:
        parts.append(line((clean(slowed[1]), slowed[2])))
    parts.append(line((who or "no process listed", "dim")))
    if device.state != "ok":
        return clip((Span(" " * (indent + 2)), *joined(parts, Span(" · ", "dim"))), width)
    for value, text in (
        (device.sm_activity_percent, f"SM {units.number(device.sm_activity_percent)}%"),
        (device.tensor_activity_percent, f"tensor {units.number(device.tensor_activity_percent)}%"),
        (device.power_limit_w, f"limit {units.number(device.power_limit_w, ' W')}"),
        (device.sm_clock_mhz, units.number(device.sm_clock_mhz, " MHz")),
    ):
        if value is not None:
            parts.append(line((text, "dim")))
    return clip((Span(" " * (indent + 2)), *joined(parts, Span(" · ", "dim"))), width)


def _users(view: View) -> dict[str, str]:
    """Return a short description of each device's users, by UUID."""
    names = {run.run_id: clean(run.name) for run in view.snapshot.runs}
    return {uuid: _named(processes, names) for uuid, processes in processes_by_device(view).items()}


def _named(processes: Sequence[Process], names: Mapping[str, str]) -> str:
    """Return the run and ranks of the processes, else the name of the user."""
    groups: dict[str, list[Process]] = {}
    for process in processes:
        name = names.get(process.run_id) if process.run_id else None
        groups.setdefault(name or clean(process.user or "?"), []).append(process)
    parts = []
    for name, members in groups.items():
        ranks = sorted(process.rank for process in members if process.rank is not None)
        if ranks:
            parts.append(f"{name} rank{'s' * (len(ranks) > 1)} {units.ranges(ranks, compact=True)}")
        else:
            parts.append(name if len(members) == 1 else f"{name} ({len(members)} processes)")
    return ", ".join(parts)


def _no_devices(view: View, width: int) -> tuple[Line, ...]:
    problem = view.snapshot.host.problem
    if problem is None:
        return tuple(wrap("Waiting for the first reading of the GPUs …", width, "dim"))
    return (*wrap(clean(problem.message), width, "warn"), *wrap(clean(problem.hint), width, "text"))


def _hint(view: View, width: int) -> tuple[Line, ...]:
    """Return the first steps for a machine without a GPU: shown with virtual GPUs, until a run is live.

    The header keeps saying that the GPUs are virtual.
    """
    host = view.snapshot.host
    if host.source != "virtual":
        return ()
    from gputop.snapshot import LIVE_STATES

    if any(run.state in LIVE_STATES for run in view.snapshot.runs):
        return ()
    lines: list[Line] = []
    if host.problem is not None:
        style = "dim" if host.problem.code in NO_GPU_CODES else "warn"
        lines += [*wrap(clean(host.problem.message), width, style), *wrap(clean(host.problem.hint), width, "dim"), ()]
    count = len(view.snapshot.devices)
    lines += wrap(f"{count} virtual GPU{'s' * (count != 1)} to try everything with: CPU work, measured.", width, "dim")
    lines += wrap("Press l to launch a demo.", width, "text") if view.remote is None else ()
    return tuple(lines)
