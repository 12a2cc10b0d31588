"""The first line of the screen: the machine, badges such as "VIRTUAL GPUs", the clock, the interval. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gputop import units
from gputop.tui.drawing.line import Line, Span, clean, clip, joined, line, spread, width
from gputop.tui.state.device_state import short_name
from gputop.tui.state.view import View

if TYPE_CHECKING:
    from gputop.snapshot import Device

_GAP = Span("   ")
_DOT = Span(" · ", "dim")


def header_line(view: View | None, cells: int, remote: str | None = None) -> Line:
    """Return the header in exactly ``cells`` cells; on a narrow screen only the badges and the clock remain.

    ``remote`` is the other machine whose first snapshot is awaited, if it is one.
    """
    name = line(" ", ("gputop", "title"))
    if view is None:
        return spread((*name, Span("  "), waiting_for(remote)), (), cells)
    badges = joined(badges_of(view), Span(" "))
    clock = units.clock(view.snapshot.time)
    own = [line(("gputop ", "dim"), (view.own_cost.words(), "dim"))] if view.own_cost is not None else []
    right: list[Line] = [badges, *own, *_load(view), line(clock), line((_interval(view.settings.interval_s), "dim"))]
    left: list[Line] = _machine(view)
    # Least important first: parts are dropped one by one until the rest fits.
    for part in ("own", "versions", "load", "load", "interval", "devices", "host"):
        if _needed(name, left, right) <= cells:
            break
        if part == "own":
            del right[1 : 1 + len(own)]
        elif part == "versions":
            left = left[:2]
        elif part == "load" and len(right) > 3:
            del right[1]
        elif part == "interval":
            right = right[:-1]
        else:
            left = left[:-1]
    tail = (*joined(right, _GAP), Span(" "))
    head = joined((name, joined(left, _DOT)), Span("  "))
    return spread(clip(head, max(0, cells - width(tail) - 2)), tail, cells)


def waiting_for(remote: str | None) -> Span:
    """Return what the screen waits for before the first snapshot; ``remote`` names the machine if it is another one."""
    return Span("starting …" if remote is None else f"connecting to {clean(remote)} …", "dim")


def _needed(name: Line, left: Sequence[Line], right: Sequence[Line]) -> int:
    return width(name) + 2 + width(joined(left, _DOT)) + 2 + width(joined(right, _GAP)) + 1


def _interval(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"


def _machine(view: View) -> list[Line]:
    host = view.snapshot.host
    parts = [line((clean(host.hostname), "value"))]  # the name that it reports; the badge has the user's name for it
    devices = device_summary(view.snapshot.devices)
    parts.append(line(devices) if devices else line(("no GPU", "warn")))
    if host.driver_version:
        parts.append(line((f"driver {clean(_short_version(host.driver_version))}", "dim")))
    if host.cuda_version:
        parts.append(line((f"CUDA {clean(host.cuda_version)}", "dim")))
    return parts


def _short_version(version: str) -> str:
    return ".".join(version.split(".")[:2])


def device_summary(devices: Sequence[Device]) -> str:
    """Return "8 × H100 80GB", one group per model; MIG instances are not counted."""
    names = Counter(_model(device) for device in devices if device.kind != "mig")
    return ", ".join(f"{count} × {name}" for name, count in names.items())


def _model(device: Device) -> str:
    if device.kind == "virtual":
        return "virtual GPU"
    return clean(short_name(device)).removesuffix(" HBM3e").removesuffix(" HBM3")


def _load(view: View) -> list[Line]:
    host = view.snapshot.host
    cpu = "N/A" if host.cpu_percent is None else f"{host.cpu_percent:>2.0f}%"
    full = host.memory_used_bytes is not None and bool(host.memory_total_bytes)
    share = (host.memory_used_bytes or 0) / (host.memory_total_bytes or 1) if full else 0.0
    memory = units.gib_of(host.memory_used_bytes, host.memory_total_bytes)
    return [
        line(("CPU ", "dim"), cpu),
        line(("RAM ", "dim"), (memory, "warn" if share >= 0.95 else "text")),
    ]


def badges_of(view: View) -> list[Line]:
    """Return what the user must know before trusting a number: that it is not real, not live, or not fresh."""
    host = view.snapshot.host
    badges: list[Line] = []
    if view.remote is not None:
        badges.append(line((f"ON {clean(view.remote)}", "accent")))
    if host.simulated:
        badges.append(line(("SIMULATED", "warn")))
    if host.source == "virtual":
        badges.append(line(("VIRTUAL GPUs", "warn")))
    if view.feed == "replay":
        badges.append(line((f"REPLAY {clean(view.replay_status or '')}".rstrip(), "accent")))
    elif view.feed == "ended":
        badges.append(line(("STREAM ENDED", "bad")))
    if view.paused:
        badges.append(line(("PAUSED", "accent")))
    if view.stale_s is not None:
        badges.append(line((f"STALE {units.duration(view.stale_s)}", "bad")))
    if view.feed_problem:
        badges.append(line((clean(view.feed_problem), "bad")))
    return badges
