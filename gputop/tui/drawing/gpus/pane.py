"""The GPU pane: one row per device, denser when there are many. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from gputop import units
from gputop.history.series import Series
from gputop.snapshot import LIVE_STATES, Device, Process
from gputop.tui.drawing.bars import bar, segments, sparkline
from gputop.tui.drawing.line import Drawing, Line, Span, clean, clip, fit, joined, line, wrap
from gputop.tui.state.device_state import short_name, throttle, trouble
from gputop.tui.state.memory_split import MemorySplit, memory_splits
from gputop.tui.state.view import View

SECONDS_PER_COLUMN = 10.0
"""Time per sparkline column. Columns start at multiples of it, so that a tick changes one character, not the whole line."""
IDLE_PERCENT = 1.0
FULL_SHARE = 0.95
"""From this share of memory in use on, the next batch may not fit."""
NOTE_MIN_ROWS = 4
"""The hint about a missing driver leaves the devices at least this many rows."""


class _Layout(NamedTuple):
    """Width in cells of each part of a row; 0 leaves the part out."""

    label: int
    bar: int
    spark: int
    memory: int
    memory_bar: int
    power: int
    flag: int
    temperature: int


def _layout(width: int, virtual: bool) -> _Layout:
    label = 3 if virtual else 2
    room = width - (1 + label + 1 + 4)
    sizes = dict.fromkeys(("memory", "bar", "temperature", "power", "spark", "memory_bar", "flag"), 0)
    # In order of importance: the first part that does not fit is left out, along with everything after it.
    for name, cells in {"memory": 13, "bar": 4, "temperature": 4, "power": 5, "spark": 6, "memory_bar": 4, "flag": 4}.items():
        if room < cells + 1:
            break
        sizes[name] = cells
        room -= cells + 1
    else:
        for name, share, most in (("bar", 0.4, 24), ("spark", 0.35, 30), ("memory_bar", 0.25, 16)):
            sizes[name] += min(most, int(room * share))
    return _Layout(label, **sizes)


def draw_gpus(view: View, width: int, height: int) -> Drawing:
    """Return the GPU pane for ``width`` cells and ``height`` lines.

    With the density "auto", each device takes two lines if all of them fit, else one.
    """
    devices = _ordered(view.snapshot.devices)
    title = line(("GPUs", "title"), (_title_note(devices), "dim"))
    if not devices:
        return Drawing(title, _no_devices(view, width))
    note = _hint(view, width) if height - len(devices) - 1 >= NOTE_MIN_ROWS else ()
    full = _is_full(view, len(devices), height - len(note))
    layout = _layout(width, any(device.kind == "virtual" for device in devices))
    rows: list[Line] = []
    involved = view.involved_devices
    models = {device.name for device in devices if device.kind != "mig" and device.name}
    users = _users(view) if full else {}
    splits = memory_splits(view.snapshot, view.run_id)
    for device in devices:
        instances = sum(other.parent_uuid == device.uuid for other in devices)
        rows.append(_row(view, device, layout, width, device.uuid in involved, splits.get(device.uuid), instances))
        if full and device.kind != "mig":
            rows.append(_detail(device, users.get(device.uuid, ""), len(models) > 1, layout.label, width))
    spare = height - len(rows) - len(note)
    if spare > 0:
        rows.insert(0, _heading(layout, width))
    if note and spare > 1:
        rows.append(())
    return Drawing(title, (*rows, *note))


def lines_wanted(view: View) -> int:
    """Return how many lines the devices, their balance and the hint fill comfortably."""
    return 2 * max(1, len(view.snapshot.devices)) + (6 if view.snapshot.host.problem else 3)


def _is_full(view: View, count: int, height: int) -> bool:
    if view.settings.density in ("full", "compact"):
        return view.settings.density == "full"
    return 2 * count + 1 <= height


def _title_note(devices: tuple[Device, ...]) -> str:
    virtual = sum(device.kind == "virtual" for device in devices)
    return f" · {virtual} virtual" if virtual else ""


def _ordered(devices: tuple[Device, ...]) -> tuple[Device, ...]:
    """Put each MIG instance after its parent GPU."""
    listed = {device.uuid for device in devices}
    children: dict[str, list[Device]] = {}
    for device in devices:
        if device.parent_uuid in listed and device.parent_uuid is not None:
            children.setdefault(device.parent_uuid, []).append(device)
    inside = {child.uuid for group in children.values() for child in group}
    return tuple(one for device in devices if device.uuid not in inside for one in (device, *children.get(device.uuid, ())))


def _heading(layout: _Layout, width: int) -> Line:
    parts = [" " * (1 + layout.label) + " util"]
    if layout.bar:
        parts.append(fit_word("", layout.bar))
    if layout.spark:
        seconds = layout.spark * SECONDS_PER_COLUMN
        parts.append(fit_word(f"last {units.duration(seconds)}", layout.spark))
    parts.append(fit_word("memory", layout.memory, ">"))
    if layout.memory_bar:
        parts.append(fit_word("", layout.memory_bar))
    if layout.power:
        parts.append(fit_word("power", layout.power, ">") + " " * (layout.flag + 1 if layout.flag else 0))
    if layout.temperature:
        parts.append(fit_word("temp", layout.temperature, ">"))
    return clip(line((" ".join(parts), "dim")), width)


def fit_word(word: str, cells: int, align: str = "<") -> str:
    """Return a heading in exactly ``cells`` cells: a word that does not fit is left out."""
    shown = word if len(word) <= cells else ""
    return f"{shown:{align}{cells}}"


def _row(
    view: View, device: Device, layout: _Layout, width: int, involved: bool, split: MemorySplit | None, instances: int
) -> Line:
    mark = Span("▸", "accent") if involved else Span(" ")
    label = Span(_label(device, layout.label), "value" if device.kind != "mig" else "dim")
    broken = trouble(device)
    if broken:
        state, words = broken
        style = "warn" if device.state == "stale" else "bad"
        return clip(line(mark, label, " ", (f"{state:>4}", style), " ", (clean(words), style)), width)
    parts: list[Line] = [(Span(" MIG", "dim") if instances else _utilization(device),)]
    if instances:
        # NVML does not measure the utilization of a GPU that is cut into instances.
        parts.append(_words(f"{instances} instance{'s' * (instances != 1)}", layout))
    elif device.kind == "mig":
        parts.append(_words(f"MIG {clean(device.mig_label or device.name or device.uuid)}", layout))
    else:
        if layout.bar:
            share = None if device.utilization_percent is None else device.utilization_percent / 100
            parts.append(bar(share, layout.bar, view.settings.ascii))
        if layout.spark:
            parts.append((Span(_spark(view, device, layout.spark), "bar"),))
    if layout.memory:
        parts.append((Span(f"{_memory(device):>{layout.memory}}", "text"),))
    if layout.memory_bar:
        parts.append(_memory_bar(device, split, layout.memory_bar, view.settings.ascii))
    if layout.power:
        parts.append(
            (Span(f"{units.number(device.power_w, ' W'):>{layout.power}}", "dim" if device.power_w is None else "text"),)
        )
    if layout.flag:
        parts.append((_flag(device, layout.flag),))
    if layout.temperature:
        parts.append((_temperature(device, layout.temperature),))
    return clip((mark, label, Span(" "), *joined(parts, Span(" "))), width)


def _label(device: Device, cells: int) -> str:
    if device.kind == "mig":
        return f"{'└':>{cells}}"
    return f"{'v' if device.kind == 'virtual' else ''}{device.index}".rjust(cells)


def _utilization(device: Device) -> Span:
    value = device.utilization_percent
    style = "dim" if value is None or value < IDLE_PERCENT else "value"
    return Span(f"{units.percent(value):>4}", style)


def _words(text: str, layout: _Layout) -> Line:
    """Return words in place of the bar and the sparkline."""
    cells = layout.bar + layout.spark + (1 if layout.bar and layout.spark else 0)
    return fit(line((text, "dim")), cells) if cells else ()


def _spark(view: View, device: Device, cells: int) -> str:
    end = (view.snapshot.time // SECONDS_PER_COLUMN + 1) * SECONDS_PER_COLUMN
    values = recent_means(view.history.device(device.uuid, "utilization_percent"), end, SECONDS_PER_COLUMN, cells)
    return sparkline(values, ascii_only=view.settings.ascii)


def recent_means(series: Series | None, end: float, seconds: float, count: int) -> list[float | None]:
    """Return ``count`` means of ``seconds`` each up to ``end``; None where there is no data.

    All but the last mean are final, so they are computed once per column and not on every tick. The exception is a series that
    has been halved: its newest bucket may grow across a column border.
    """
    if not math.isfinite(end):
        return [None] * count
    if series is None or series.width > 1 or count < 2:
        return _means(series, end, seconds, count)
    return [*_past_means(series, end - seconds, seconds, count - 1), *_means(series, end, seconds, 1)]


@lru_cache(maxsize=256)
def _past_means(series: Series, end: float, seconds: float, count: int) -> tuple[float | None, ...]:
    return tuple(_means(series, end, seconds, count))


def _means(series: Series | None, end: float, seconds: float, count: int) -> list[float | None]:
    """Return the means, iterating backward from the newest bucket."""
    totals, counts = [0.0] * count, [0] * count
    start, scale = end - seconds * count, 1 / seconds
    for bucket in reversed(series.buckets if series else ()):
        last = bucket.x_last
        if last < start:
            break
        place = int(((bucket.x_first + last) / 2 - start) * scale)
        if 0 <= place < count:
            totals[place] += bucket.total
            counts[place] += bucket.count
    return [total / number if number else None for total, number in zip(totals, counts, strict=True)]


def _memory(device: Device) -> str:
    used, total = device.memory_used_bytes, device.memory_total_bytes
    if used is None and total is None:
        return units.UNKNOWN
    digits = 0 if total is not None and total >= 10 * 2**30 else 1
    return f"{units.gib(used)}/{units.gib(total, digits)} GiB"


def _memory_bar(device: Device, split: MemorySplit | None, cells: int, ascii_only: bool) -> Line:
    """Return who holds the memory: this run, others, what has no listed owner, the driver (dim). Amber once it is full."""
    used, total = device.memory_used_bytes, device.memory_total_bytes
    if used is None or not total:
        return (Span(" " * cells),)
    if used / total >= FULL_SHARE:
        return segments([(used / total, "warn")], cells, ascii_only)
    if split is None or split.other is None:
        return segments([(used / total, "memory")], cells, ascii_only)
    owned = [(split.run, "memory"), (split.other, "other" if split.run else "memory"), (split.unlisted, "warn")]
    parts = [((held or 0) / total, style) for held, style in owned]
    return segments([*parts, (max(0.0, used / total - sum(share for share, _ in parts)), "dim")], cells, ascii_only)


def _flag(device: Device, cells: int) -> Span:
    found = throttle(device)
    return Span(f"{found[0]:<{cells}}", found[2]) if found else Span(" " * cells)


def _temperature(device: Device, cells: int) -> Span:
    value, limit = device.temperature_c, device.temperature_slowdown_c
    if value is None:
        return Span(f"{units.UNKNOWN:>{cells}}", "dim")
    hot = limit is not None and value >= limit - 3
    return Span(f"{units.number(value, '°C'):>{cells}}", "bad" if hot else "text")


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
        (device.sm_activity_percent, f"SM {units.number(device.sm_activity_percent)} %"),
        (device.tensor_activity_percent, f"tensor {units.number(device.tensor_activity_percent)} %"),
        (device.power_limit_w, f"limit {units.number(device.power_limit_w, ' W')}"),
        (device.sm_clock_mhz, units.number(device.sm_clock_mhz, " MHz")),
    ):
        if value is not None:
            parts.append(line((text, "dim")))
    return clip((Span(" " * (indent + 2)), *joined(parts, Span(" · ", "dim"))), width)


def _users(view: View) -> dict[str, str]:
    """Return a short description of each device's users, by UUID."""
    names = {run.run_id: clean(run.name) for run in view.snapshot.runs}
    parents = {device.uuid: device.parent_uuid for device in view.snapshot.devices if device.parent_uuid is not None}
    found: dict[str, list[Process]] = {}
    for process in view.snapshot.processes:
        uuids = dict.fromkeys(use.device_uuid for use in process.devices)
        # A GPU that is cut into instances is used by the processes on its instances.
        for uuid in uuids | dict.fromkeys(parents[uuid] for uuid in uuids if uuid in parents):
            found.setdefault(uuid, []).append(process)
    return {uuid: _named(processes, names) for uuid, processes in found.items()}


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


_NO_GPU_CODES = ("library_not_found", "no_gpu")
"""Error codes of a machine that simply has no GPU; any other means a driver that should work but does not."""


def _hint(view: View, width: int) -> tuple[Line, ...]:
    """Return the first steps for a machine without a GPU: shown with virtual GPUs, until a run is live."""
    host = view.snapshot.host
    if host.source != "virtual":
        return ()
    lines: list[Line] = []
    if host.problem is not None:
        style = "dim" if host.problem.code in _NO_GPU_CODES else "warn"
        lines += [*wrap(clean(host.problem.message), width, style), *wrap(clean(host.problem.hint), width, "dim"), ()]
    count = len(view.snapshot.devices)
    lines += wrap(f"{count} virtual GPU{'s' * (count != 1)} to try everything with: CPU work, measured.", width, "dim")
    if not any(run.state in LIVE_STATES for run in view.snapshot.runs):
        lines += wrap("Press l to launch a demo.", width, "text")
    return tuple(lines)
