"""The network of a host as its ranks use it, in one line: the interface, its speed, and what it carries. Pure."""

from __future__ import annotations

from gputop import units
from gputop.network.records import Interface, NetworkPath
from gputop.network.words import mbit_per_s, rate_text, speed_text
from gputop.snapshot import Snapshot
from gputop.tui.drawing.line import Line, Span, clean, clip, joined, line

RDMA_SHOWN_MBIT_PER_S = 1.0
"""Ports with less traffic are not shown: a host has up to ten."""


def network_line(snapshot: Snapshot, width: int) -> Line | None:
    """Return the line; None unless ranks on this host exchange something with other machines."""
    used = {path.interface for path in snapshot.paths}
    shown = [each for each in snapshot.interfaces if each.name in used or (each.kind == "rdma" and _is_busy(each))]
    if not shown:
        return None
    parts = [_interface(each) for each in sorted(shown, key=lambda each: -(each.sent_bytes or 0))]
    waits = max((share for path in snapshot.paths if (share := _sending_share(path)) is not None), default=None)
    if waits is not None:
        parts.append(line(("data waits ", "dim"), (units.percent(100 * waits), "text"), (" of the time", "dim")))
    return clip(joined([line(("Network", "dim")), *parts], Span(" · ", "dim")), width)


def _interface(each: Interface) -> Line:
    speed = f" {speed_text(each.speed_mbit_per_s)}" if each.speed_mbit_per_s is not None else ""
    traffic = (
        f" sends {rate_text(each.sent_bytes, each.window_s)}, receives {rate_text(each.received_bytes, each.window_s)}"
        if each.window_s
        else ""
    )
    is_well = each.state in (None, "up") and each.duplex != "half"
    state = "" if is_well else f" {clean(each.state or '')}" if each.state != "up" else " half duplex"
    return line((clean(each.name), "text"), (state, "bad"), (speed, "text"), (traffic, "dim"))


def _is_busy(port: Interface) -> bool:
    return (mbit_per_s(port.sent_bytes, port.window_s) or 0.0) >= RDMA_SHOWN_MBIT_PER_S


def _sending_share(path: NetworkPath) -> float | None:
    return min(1.0, path.sending_s / path.window_s) if path.sending_s is not None and path.window_s else None
