"""One row per device: how busy it is and has been, its memory, power, heat and clock, in the room available. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from gputop import units
from gputop.tui.drawing.bars import segments
from gputop.tui.drawing.gpus.past import column_end, recent_means, row_of_means, row_seconds, with_recorded
from gputop.tui.drawing.line import Line, Span, clean, clip, fit, fit_text, joined, line, text_width
from gputop.tui.state.device_state import slowness, throttle, trouble
from gputop.tui.state.memory_split import MemorySplit, memory_splits
from gputop.tui.state.view import View

if TYPE_CHECKING:
    from gputop.snapshot import Device, Process

IDLE_PERCENT = 1.0
"""Below this utilization, a GPU's number is dim."""
FULL_SHARE = 0.95
"""From this share of memory in use on, the next batch may not fit."""
BAR_CELLS_MIN = 8
"""A shorter bar or row of the past shows too little."""
PAST_CELLS_GOOD, PAST_CELLS_MAX = 20, 60
"""Three minutes show whether a GPU works evenly; more than ten belong on its own screen."""


class Layout(NamedTuple):
    """Width in cells of each part of a row; 0 leaves the part out."""

    label: int
    user: int
    past: int
    units: int
    bar: int
    memory: int
    power: int
    temperature: int
    links: int
    clock: int


_LEAST = (
    # (part, its least cells), the most important first: what does not fit is left out, along with everything after it
    ("memory", 4),
    ("past", BAR_CELLS_MIN),
    ("temperature", 4),
    ("power", 5),
    ("user", 4),
    ("bar", BAR_CELLS_MIN),
    ("units", 11),
    ("clock", 8),
    ("links", 16),
)
_MEMORY_CELLS = (10, 8, 4)
"""Of "70.5/141G", "71/80G" or "71G"."""
_LIMIT_CELLS = 5
"""Of "/700" after the power, or "/1200"."""


def unmeasured(devices: Iterable[Device]) -> frozenset[str]:
    """Return the parts of a row that would be blank for each of these devices; "limit" is that of the power."""
    readings = {
        "units": ("sm_activity_percent", "tensor_activity_percent"),
        "links": ("nvlink_rx_bytes_per_s", "pcie_rx_bytes_per_s"),
        "clock": ("sm_clock_mhz", "throttle_reasons"),
        "limit": ("power_limit_w",),
    }
    seen = [device for device in devices if device.state == "ok"]
    return frozenset(
        part
        for part, names in readings.items()
        if all(getattr(device, name) in (None, ()) for device in seen for name in names)
    )


def row_layout(width: int, label: int, without: Collection[str] = ()) -> Layout:
    """Return the parts of a row that fit into ``width`` cells; the parts in ``without`` take none."""
    room = width - (1 + label + 1 + 4)
    sizes = dict.fromkeys((name for name, _ in _LEAST), 0)
    for name, cells in _LEAST:
        if name == "units":
            # The past shows more than how the units are used.
            wider = min(room, max(0, PAST_CELLS_GOOD - sizes["past"]))
            sizes["past"] += wider
            room -= wider
        if name == "links":
            wider = min(room, _MEMORY_CELLS[1] - sizes["memory"])
            sizes["memory"] += wider
            room -= wider
        if name in without:
            continue
        if room < cells + 1:
            break
        sizes[name] = cells
        room -= cells + 1
    else:
        if "limit" not in without and room >= _LIMIT_CELLS:
            sizes["power"] += _LIMIT_CELLS
            room -= _LIMIT_CELLS
    if sizes["bar"]:
        wider = min(room, _MEMORY_CELLS[0] - sizes["memory"])
        sizes["memory"] += wider
        room -= wider
    if sizes["past"]:
        wider = min(room, PAST_CELLS_MAX - sizes["past"])
        sizes["past"] += wider
        room -= wider
    if sizes["bar"]:
        sizes["bar"] += min(room, 24)
    return Layout(label, **sizes)


@dataclass(frozen=True, slots=True)
class Rows:
    """What the rows of a view's devices need, computed once for all of them."""

    view: View
    users: Mapping[str, Span]
    splits: Mapping[str, MemorySplit]
    instances: Mapping[str, int]

    def draw(self, device: Device, layout: Layout, width: int) -> Line:
        """Return one device's row in at most ``width`` cells."""
        view = self.view
        mark = Span("▸", "accent") if device.uuid in view.involved_devices else Span(" ")
        label = Span(label_of(device, layout.label), "value" if device.kind != "mig" else "dim")
        broken = trouble(device)
        if broken:
            state, words = broken
            style = "warn" if device.state == "stale" else "bad"
            return clip(line(mark, label, " ", (f"{state:>4}", style), " ", (clean(words), style)), width)
        instances = self.instances.get(device.uuid, 0)
        parts: list[Line] = []
        if layout.user:
            parts.append((self.users.get(device.uuid, Span(" " * layout.user)),))
        parts.append((Span(" MIG", "dim") if instances else _utilization(device),))
        if layout.past:
            parts.append(self._past(device, layout, instances))
        if layout.units:
            parts.append((_units(device, layout.units),))
        if layout.bar:
            parts.append(memory_bar(device, self.splits.get(device.uuid), layout.bar, view.settings.ascii))
        if layout.memory:
            parts.append((_memory(device, layout.memory),))
        if layout.power:
            parts.append((Span(f"{_power(device, layout.power):>{layout.power}}", _known(device.power_w)),))
        if layout.temperature:
            parts.append((_temperature(device, layout.temperature),))
        if layout.links:
            parts.append((_links(device, layout.links),))
        if layout.clock:
            parts.append((_clock(device, layout.clock),))
        return clip((mark, label, Span(" "), *joined(parts, Span(" "))), width)

    def _past(self, device: Device, layout: Layout, instances: int) -> Line:
        if instances or device.kind == "mig":
            # NVML does not measure the utilization of a GPU that is divided into instances.
            own = f"MIG {clean(device.mig_label or device.name or device.uuid)}"
            text = f"{instances} instance{'s' * (instances != 1)}" if instances else own
            return fit(line((text, "dim")), layout.past)
        series = self.view.history.device(device.uuid, "utilization_percent")
        seconds = row_seconds(self.view)
        end = column_end(self.view.snapshot.time, seconds)
        recorded = self.view.history.recorded(self.view.run_id or "", device.uuid, "utilization_percent")
        means = with_recorded(recent_means(series, end, seconds, layout.past), recorded, end, seconds)
        return row_of_means(means, self.view.settings.ascii)


def cut_trouble(devices: Iterable[Device], layout: Layout, cells: int) -> list[Line]:
    """Return the sentences about devices in trouble that their rows of ``cells`` cells cannot hold."""
    lines: list[Line] = []
    for device in devices:
        broken = trouble(device)
        words = clean(broken[1]) if broken is not None else ""
        if text_width(words) > cells - layout.label - 7:
            style = "warn" if device.state == "stale" else "bad"
            named = words.startswith(f"GPU {device.index} ")
            lines.append(line(("" if named else f"GPU {device.index}: ", style), (words, style)))
    return lines


def rows_of(view: View, user_cells: int = 4) -> Rows:
    """Return what the rows of this view's devices need."""
    devices = view.snapshot.devices
    instances: dict[str, int] = {}
    for device in devices:
        if device.parent_uuid is not None:
            instances[device.parent_uuid] = instances.get(device.parent_uuid, 0) + 1
    return Rows(view, _users(view, user_cells), memory_splits(view.snapshot, view.run_id), instances)


def processes_by_device(view: View) -> dict[str, list[Process]]:
    """Return the processes on each device by UUID; an instance's processes also count for its GPU."""
    parents = {device.uuid: device.parent_uuid for device in view.snapshot.devices if device.parent_uuid is not None}
    found: dict[str, list[Process]] = {}
    for process in view.snapshot.processes:
        if len(process.devices) == 1 and not parents:  # of hundreds, nearly all
            found.setdefault(process.devices[0].device_uuid, []).append(process)
            continue
        uuids = dict.fromkeys(use.device_uuid for use in process.devices)
        for uuid in uuids | dict.fromkeys(parents[uuid] for uuid in uuids if uuid in parents):
            found.setdefault(uuid, []).append(process)
    return found


def _users(view: View, cells: int) -> dict[str, Span]:
    """Return per device the rank of the chosen run on it, else the user."""
    found: dict[str, Span] = {}
    for uuid, processes in processes_by_device(view).items():
        ranks = [process.rank for process in processes if process.run_id == view.run_id and process.rank is not None]
        if ranks:
            found[uuid] = Span(fit_text(f"r{units.ranges(ranks, compact=True)}", cells), "owner")
            continue
        names = dict.fromkeys(clean(process.user) for process in processes if process.user)
        found[uuid] = Span(fit_text(",".join(names) or "?", cells), "dim")
    return found


def label_of(device: Device, cells: int) -> str:
    """Return a device's label: its index, "v0" for a virtual GPU, a branch for a MIG instance."""
    if device.kind == "mig":
        return f"{'└':>{cells}}"
    return f"{'v' if device.kind == 'virtual' else ''}{device.index}".rjust(cells)


def _known(value: float | None) -> str:
    return "dim" if value is None else "text"


def _utilization(device: Device) -> Span:
    value = device.utilization_percent
    style = "dim" if value is None or value < IDLE_PERCENT else "value"
    if style == "value" and slowness(device) is not None:
        found = throttle(device)
        style = "bad" if found is not None and found[2] == "bad" else "warn"
    return Span(f"{units.percent(value):>4}", style)


def _units(device: Device, cells: int) -> Span:
    """Return how busy the SMs and the tensor cores are: "SM 89 tc 58"; blank if the driver does not report it."""
    sm, tensor = device.sm_activity_percent, device.tensor_activity_percent
    if sm is None and tensor is None:
        return Span(" " * cells)
    return Span(f"SM {units.number(sm):>2} tc {units.number(tensor):>2}"[:cells].ljust(cells), "dim")


def memory_text(device: Device, cells: int) -> str:
    """Return memory in use and in total, as exactly as ``cells`` cells allow: "70.5/80G", "71/80G", "71G"."""
    used, total = device.memory_used_bytes, device.memory_total_bytes
    if used is None and total is None:
        return units.UNKNOWN
    digits = 0 if total is not None and total >= 10 * 2**30 else 1
    if used is None:
        return f"{units.UNKNOWN}/{units.gib(total, digits)}G"[:cells]
    whole = f"/{units.gib(total, digits)}G" if total is not None else "G"
    forms = (f"{units.gib(used)}{whole}", f"{units.gib(used, 0)}{whole}", f"{units.gib(used, 0)}G")
    return next((form for form in forms if len(form) <= cells), forms[-1][:cells])


def _memory(device: Device, cells: int) -> Span:
    share = memory_share(device)
    style = "dim" if device.memory_used_bytes is None else "warn" if share is not None and share >= FULL_SHARE else "text"
    return Span(f"{memory_text(device, cells):>{cells}}", style)


def memory_share(device: Device) -> float | None:
    """Return the share of the memory in use (0 to 1), or None if unknown."""
    if device.memory_used_bytes is None or not device.memory_total_bytes:
        return None
    return device.memory_used_bytes / device.memory_total_bytes


def memory_bar(device: Device, split: MemorySplit | None, cells: int, ascii_only: bool) -> Line:
    """Return who holds the memory: this run, others, what has no listed owner, the driver (dim). Amber once it is full."""
    share = memory_share(device)
    total = device.memory_total_bytes
    if share is None or not total:
        return (Span(" " * cells),)
    if share >= FULL_SHARE:
        return segments([(share, "warn")], cells, ascii_only)
    if split is None or split.other is None:
        return segments([(share, "memory")], cells, ascii_only)
    owned = [(split.run, "memory"), (split.other, "other" if split.run else "memory"), (split.unlisted, "warn")]
    parts = [((held or 0) / total, style) for held, style in owned]
    return segments([*parts, (max(0.0, share - sum(part for part, _ in parts)), "dim")], cells, ascii_only)


def _power(device: Device, cells: int) -> str:
    """Return the power, and its limit if both fit: "615/700W"."""
    power = units.number(device.power_w, "W")
    if device.power_w is None or device.power_limit_w is None:
        return power
    whole = f"{device.power_w:.0f}/{units.number(device.power_limit_w, 'W')}"
    return whole if len(whole) <= cells else power


def _temperature(device: Device, cells: int) -> Span:
    value = device.temperature_c
    if value is None:
        return Span(f"{units.UNKNOWN:>{cells}}", "dim")
    return Span(f"{units.number(value, '°C'):>{cells}}", "bad" if is_hot(device) else "text")


def is_hot(device: Device) -> bool:
    """Return whether a device is within 3 °C of the temperature at which it slows down."""
    value, limit = device.temperature_c, device.temperature_slowdown_c
    return value is not None and limit is not None and value >= limit - 3


def _links(device: Device, cells: int) -> Span:
    """Return the traffic in GB/s, both directions: "nv 420 pci 3.5"; blank if the driver does not report it."""
    nvlink, pcie = link_traffic(device)
    parts = [f"nv {nvlink:3.0f}"] if nvlink is not None else []
    if pcie is not None:
        parts.append(f"pci {pcie:4.1f}")
    return Span(fit_text(" ".join(parts), cells), "dim")


def link_traffic(device: Device) -> tuple[float | None, float | None]:
    """Return the traffic over NVLink and over PCIe in GB/s, both directions together."""
    nvlink, pcie = device.nvlink_bytes_per_s, device.pcie_bytes_per_s
    return None if nvlink is None else nvlink / 1e9, None if pcie is None else pcie / 1e9


def _clock(device: Device, cells: int) -> Span:
    """Return the SM clock, preceded by one word for what throttles it."""
    slowed = throttle(device)
    clock = units.number(device.sm_clock_mhz, "MHz") if device.sm_clock_mhz is not None else ""
    if slowed is None:
        return Span(f"{clock:>{cells}}", "dim")
    short = clock.removesuffix("MHz")
    return Span(fit_text(f"{slowed[0]} {short}", cells, ">"), slowed[2])
