"""One GPU in words: why it is slow, who uses its memory, its links, limits, health and names. Pure.

Each block is a label and items; unknown items come at the end of their block, as N/A.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from gputop import units
from gputop.doctor.evidence.visible import devices_behind, mask_of, same_uuid
from gputop.doctor.facts.model import visibility
from gputop.facts.table import Facts
from gputop.snapshot import Device, Process
from gputop.tui.drawing.line import Line, Span, clean, clip, line, text_width, wrap
from gputop.tui.drawing.processes.pane import device_label
from gputop.tui.state.device_state import slowed_by, slowness
from gputop.tui.state.memory_split import MemorySplit
from gputop.tui.state.view import View

LABEL_CELLS = 10
Item = tuple[str, str | None] | tuple[str, str | None, str]
"""The name of a value, the value in words (None: unknown), and its style."""


def block(label: str, items: Iterable[Item], cells: int) -> list[Line]:
    """Return a label and the items next to it, on as many lines as they take; items that fit into a line are never cut."""
    known: list[Line] = []
    unknown: list[str] = []
    for name, value, *style in items:
        if value is None:
            unknown.append(name)
        else:
            known.append(line((f"{name} " if name else "", "dim"), (value, style[0] if style else "text")))
    if unknown:
        known += [line((f"{units.UNKNOWN}: " if not place else "", "dim"), (name, "dim")) for place, name in enumerate(unknown)]
    first = len(known) - len(unknown)
    room = max(8, cells - LABEL_CELLS)
    lines: list[list[Span]] = []
    taken = 0
    for place, item in enumerate(known):
        between = ", " if place > first else " · "
        wide = sum(text_width(span.text) for span in item) + (first <= place < len(known) - 1)  # and its comma
        if lines and taken + len(between) + wide <= room:
            lines[-1] += [Span(between, "dim"), *item]
            taken += len(between) + wide - (first <= place < len(known) - 1)
            continue
        if lines and place > first:
            lines[-1].append(Span(",", "dim"))
        pieces = wrap("".join(span.text for span in item), room, item[-1].style) if wide > room else [item]
        lines.extend(list(piece) for piece in pieces)
        taken = sum(text_width(span.text) for span in lines[-1])
    head = Span(f"{label:<{LABEL_CELLS}}", "title")
    return [clip((head if not place else Span(" " * LABEL_CELLS), *part), cells) for place, part in enumerate(lines)]


def slow_items(view: View, device: Device) -> list[Item]:
    """Return what throttles the clocks, since when, and for how long in total since the driver began to count."""
    found: list[Item] = []
    counters: dict[str, int | None] = {
        "at the power limit": device.throttle_power_ns,
        "at the power brake": device.throttle_power_brake_ns,
        "by heat (driver)": device.throttle_thermal_sw_ns,
        "by heat (hardware)": device.throttle_thermal_hw_ns,
        "by sync boost": device.throttle_sync_boost_ns,
    }
    unknown = all(spent is None for spent in counters.values())
    for words, style in slowed_by(device.throttle_reasons):
        since, from_start = _since(view, device, words)
        when = "" if since is None else f" {'since before' if from_start else 'since'} {units.clock(since)}"
        spent = counters.pop(words, None)
        in_all = f", in all {_duration(spent)}" if spent else ""
        found.append(("", f"{words}{when}{in_all}", style))
    low = slowness(device)
    if not found and low is not None:
        found.append(("", low, "warn"))
    if not found:
        measured = device.sm_clock_mhz is not None or device.throttle_reasons
        found.append(("", "nothing slows it now", "ok") if measured else ("what slows it", None, "dim"))
    if unknown:
        return [*found, ("time lost to each cause", None)]
    found += [(f"{name}, in all", _duration(spent)) for name, spent in counters.items() if spent != 0]
    never = [name for name, spent in counters.items() if spent == 0]
    if never:
        found.append(("never", " or ".join(filter(None, (", ".join(never[:-1]), never[-1]))), "dim"))
    return found


def _since(view: View, device: Device, words: str) -> tuple[float | None, bool]:
    """Return since when the reason has held without a pause, and whether that is as long as gputop has known the device."""
    past = view.history.throttling(device.uuid)
    since = None
    for place in range(len(past) - 1, -1, -1):
        time, reasons = past[place]
        if words not in {found for found, _ in slowed_by(reasons)}:
            return since, False
        since = time
    return since, since is not None


def memory_items(device: Device, split: MemorySplit | None, within: Sequence[Item] = ()) -> list[Item]:
    """Return who uses how much memory, in GiB, and how much is free; ``within`` divides the run's own part.

    The chosen run is named only where it holds memory: elsewhere, "this run 0.0 GiB" would be about no run shown there.
    """
    used, total = device.memory_used_bytes, device.memory_total_bytes
    free = None if used is None or total is None else max(0, total - used)
    parts: tuple[tuple[str, int | None, str], ...] = (
        ("this run", (split.run or None) if split else None, "memory"),
        ("others", split.other if split else None, "other"),
        ("driver", split.driver if split else None, "text"),
        ("no listed process", (split.unlisted or None) if split else None, "warn"),
        ("free", free, "value"),
    )
    left_out = {"no listed process", *(("this run",) if split is not None else ())}
    shown = [part for part in parts if part[1] is not None or part[0] not in left_out]
    items: list[Item] = [(name, None if held is None else f"{units.gib(held)} GiB", style) for name, held, style in shown]
    return [*items[:1], *within, *items[1:]]


def allocator_items(view: View, device: Device) -> list[Item]:
    """Return what the chosen run's memory consists of, in GiB: tensors, what torch caches, and the rest, the context.

    Nothing if that is unknown for one of the run's processes on the device.
    """
    facts = {rank.local_pid: rank.facts for rank in view.run.ranks} if view.run is not None else {}
    tensors = cached = context = 0
    for process in view.snapshot.processes:
        uses = [use for use in process.devices if use.device_uuid == device.uuid]
        if not uses or process.run_id is None or process.run_id != view.run_id:
            continue
        memory, used = Facts(facts.get(process.pid, {})).cuda_memory, uses[0].memory_used_bytes
        allocated, reserved = (memory.allocated_bytes, memory.reserved_bytes) if memory is not None else (None, None)
        # The allocator counts one device, and is asked less often than the driver.
        if allocated is None or reserved is None or used is None or len(process.devices) > 1:
            return []
        if not allocated <= reserved <= used:
            return []
        tensors, cached, context = tensors + allocated, cached + reserved - allocated, context + used - reserved
    if not tensors + cached + context:
        return []
    parts = (("tensors", tensors), ("cached", cached), ("context", context))
    return [(name, f"{units.gib(held)} GiB", "dim") for name, held in parts]


_SOURCES = {"gpm": "measured by the GPU", "counters": "from counters", "blocking": "sampled for 20 ms"}


def link_items(device: Device) -> list[Item]:
    """Return the PCIe link and the NVLinks: their speed and their traffic."""
    source = device.pcie_throughput_source
    items: list[Item] = [
        ("PCIe", _link(device)),
        ("PCIe in", _gigabytes(device.pcie_rx_bytes_per_s)),
        ("PCIe out", _gigabytes(device.pcie_tx_bytes_per_s)),
    ]
    if source is not None:
        items.append(("", _SOURCES.get(source, clean(source)), "dim"))
    return [
        *items,
        ("NVLinks active", _count(device.nvlinks_active)),
        ("NVLink in", _gigabytes(device.nvlink_rx_bytes_per_s)),
        ("NVLink out", _gigabytes(device.nvlink_tx_bytes_per_s)),
    ]


def _link(device: Device) -> str | None:
    if device.pcie_generation is None and device.pcie_width is None:
        return None
    now = f"gen {_count(device.pcie_generation) or units.UNKNOWN} ×{_count(device.pcie_width) or units.UNKNOWN}"
    most = f"gen {_count(device.pcie_generation_max) or units.UNKNOWN} ×{_count(device.pcie_width_max) or units.UNKNOWN}"
    return now if now == most else f"{now} of {most}"


def reading_items(device: Device, drawn: Collection[str]) -> list[Item]:
    """Return the readings and limits; those in ``drawn`` (fields of ``Device``) already have a graph."""
    clock = units.number(device.memory_clock_mhz)
    if device.memory_clock_max_mhz is not None:
        clock += f" / {device.memory_clock_max_mhz:.0f}"
    graphs = {
        "utilization_percent": ("utilization", _number(device.utilization_percent, "%")),
        "power_w": ("power", _number(device.power_w, " W")),
        "temperature_c": ("temperature", _number(device.temperature_c, " °C")),
        "sm_clock_mhz": ("SM clock", _number(device.sm_clock_mhz, " MHz")),
        "sm_activity_percent": ("SM activity", _number(device.sm_activity_percent, "%")),
        "tensor_activity_percent": ("tensor activity", _number(device.tensor_activity_percent, "%")),
        "dram_activity_percent": ("DRAM activity", _number(device.dram_activity_percent, "%")),
    }
    return [
        *(item for reading, item in graphs.items() if reading not in drawn),
        ("occupancy", _number(device.sm_occupancy_percent, "%")),
        ("memory busy", _number(device.memory_activity_percent, "%")),
        ("slows at", _number(device.temperature_slowdown_c, " °C")),
        ("stops at", _number(device.temperature_shutdown_c, " °C")),
        ("memory temperature", _number(device.memory_temperature_c, " °C")),
        ("memory clock", None if device.memory_clock_mhz is None else f"{clock} MHz"),
        ("power limit", _number(device.power_limit_w, " W")),
        ("default power limit", _number(device.power_default_limit_w, " W")),
        ("energy since the driver started", None if device.energy_j is None else f"{device.energy_j / 3.6e6:.2f} kWh"),
        ("fan", _number(device.fan_percent, "%")),
        ("performance state", None if device.performance_state is None else f"P{device.performance_state}"),
    ]


def health_items(device: Device) -> list[Item]:
    """Return errors, rows that were replaced, and how the device is set up."""
    lost = device.remapped_rows_uncorrectable
    items: list[Item] = [
        ("ECC corrected", _count(device.ecc_corrected)),
        ("ECC uncorrected", _count(device.ecc_uncorrected), "bad" if device.ecc_uncorrected else "text"),
        ("rows remapped (correctable)", _count(device.remapped_rows_correctable)),
        ("rows remapped (uncorrectable)", _count(lost), "warn" if lost else "text"),
    ]
    if device.remapped_rows_pending:
        items.append(("", "a row is remapped at the next reset", "warn"))
    if device.remapped_rows_failed:
        items.append(("", "a row could not be remapped", "bad"))
    if device.kind == "gpu":
        xids = [f"{number} at {units.clock(at)}" for at, number in device.xid_errors]
        items.append(("Xid", ", ".join(xids) if xids else "none seen", "bad" if xids else "text"))
    items += [
        ("persistence", _on_off(device.persistence_enabled)),
        ("compute mode", clean(device.compute_mode).replace("_", " ") if device.compute_mode else None),
        ("MIG", _on_off(device.mig_enabled)),
    ]
    if device.denied:
        items.append(("no permission to read", clean(", ".join(device.denied)).replace("_", " "), "warn"))
    return items


def identity_items(view: View, device: Device) -> list[Item]:
    """Return the names of a device: physical index, CUDA index in the chosen run, UUID, PCI address, NUMA node, cores."""
    parent = next((other for other in view.snapshot.devices if other.uuid == device.parent_uuid), None)
    kinds = {"virtual": "virtual GPU", "mig": "MIG instance"}
    items: list[Item] = [("", kinds[device.kind], "dim")] if device.kind in kinds else []
    items.append(("physical index", device_label(device)))
    if parent is not None:
        items.append(("part of GPU", device_label(parent)))
    items += [
        ("CUDA index", cuda_index(view, device)),
        ("", clean(device.uuid)),
        ("PCI", clean(device.pci_bus_id) if device.pci_bus_id else None),
        ("NUMA node", _count(device.numa_node)),
        ("cores near it", units.ranges(device.cpu_affinity, compact=True) if device.cpu_affinity else None),
    ]
    return items


def cuda_index(view: View, device: Device) -> str | None:
    """Return the index under which the chosen run's processes see this device: "0 for rank 6"; None if unknown."""
    run = view.run
    if run is None:
        return None
    ranks = {rank.rank: rank for rank in run.ranks}
    seen: dict[int, list[int]] = {}
    for process in view.snapshot.processes:
        if (
            process.run_id != run.run_id
            or process.rank is None
            or device.uuid not in {use.device_uuid for use in process.devices}
        ):
            continue
        visible = visibility(ranks.get(process.rank))
        index = _place([same_uuid(uuid, device.uuid) for uuid in visible.uuids]) if visible and visible.uuids else None
        if index is None:
            index = _index_behind_mask(view.snapshot.devices, process, device)
        if index is not None:
            seen.setdefault(index, []).append(process.rank)
    return ", ".join(f"{index} for rank {units.ranges(held, compact=True)}" for index, held in sorted(seen.items())) or None


def _index_behind_mask(devices: Sequence[Device], process: Process, device: Device) -> int | None:
    """Return the device's index within the process's mask; None if CUDA may order the devices differently."""
    if process.environment is None:
        return None
    virtual = device.kind == "virtual"
    pool = [other for other in devices if other.kind == device.kind]
    models = {other.name for other in pool}
    if not virtual and len(models) > 1 and process.environment.cuda_device_order != "PCI_BUS_ID":
        return None
    return _place([other.uuid == device.uuid for other in devices_behind(mask_of(process, virtual), pool)])


def _place(hits: Sequence[bool]) -> int | None:
    return hits.index(True) if True in hits else None


def _count(value: int | None) -> str | None:
    return None if value is None else str(value)


def _number(value: float | None, unit: str) -> str | None:
    return None if value is None else units.number(value, unit)


def _gigabytes(value: float | None) -> str | None:
    return None if value is None else f"{value / 1e9:.1f} GB/s"


def _duration(nanoseconds: int | None) -> str | None:
    return None if nanoseconds is None else units.coarse_duration(nanoseconds / 1e9)


def _on_off(value: bool | None) -> str | None:
    return None if value is None else "on" if value else "off"
