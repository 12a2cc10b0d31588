"""The table of a run's ranks: devices, progress, and how each step divides into data, forward, backward, optimizer. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace

from gputop import units
from gputop.snapshot import Rank, Run, RunState, Snapshot
from gputop.tui.drawing.line import Line, Span
from gputop.tui.drawing.table import Column, fitting, heading_line, row_line

STATE_STYLES: Mapping[RunState, str] = {
    "running": "ok",
    "finished": "ok",
    "starting": "dim",
    "stalled": "warn",
    "unheard": "warn",
    "stopped": "dim",
    "ended": "dim",
    "failed": "bad",
    "killed": "bad",
}
PHASES = (
    ("data", "phase/data"),
    ("fwd", "phase/forward"),
    ("bwd", "phase/backward"),
    ("wait", "phase/communication"),
    ("opt", "phase/optimizer"),
)
"""Heading and metric of each part of a step. As ranks report it, waiting for other ranks is part of the backward pass."""
DEVICE_STEP = "cuda/step_s"
DEVICE_PHASES = (("fwd", "cuda/forward_s"), ("bwd", "cuda/backward_s"), ("opt", "cuda/optimizer_s"))
"""The same on the GPU, of the newest step that was timed there. The host's times say when it queued this work."""
COLUMNS = (
    Column("rank", "RANK", 5, ">"),
    Column("pid", "PID", 8, ">", 3),
    Column("device", "GPU", 6, "<", 1),
    Column("step", "STEP", 9, ">", 2),
    Column("value", "VALUE", 10, ">", 1),
    Column("speed", "SAMPLES/S", 10, ">", 4),
    Column("took", "STEP TIME", 9, ">", 5),
    *(Column(name, name.upper(), 5, ">", 6) for name, _ in PHASES),
    Column("state", "STATE", 10, "<", 0, grows=True),
)


def draw_ranks(
    run: Run, snapshot: Snapshot, width: int, *, metric: str = "", marked: Collection[int] = (), ascii_only: bool = False
) -> tuple[Line, ...]:
    """Return a heading and one line per rank; ``marked`` are the PIDs that a finding is about.

    The parts of a step are percentages of its time, from the newest values.
    """
    known = {name for rank in run.ranks for name in rank.metrics}
    listed = [
        replace(column, heading=metric.upper()[:10]) if column.key == "value" and metric else column
        for column in COLUMNS
        if _is_known(column.key, metric, known)
    ]
    columns = fitting(listed, width)
    devices = {device.uuid: device.index for device in snapshot.devices}
    on = {
        process.pid: ",".join(str(devices[use.device_uuid]) for use in process.devices if use.device_uuid in devices)
        for process in snapshot.processes
    }
    lines = [heading_line(columns, width, ascii_only)]
    for rank in run.ranks:
        cells = _cells(rank, metric, on.get(rank.local_pid or -1, ""))
        if rank.local_pid in marked:
            cells["rank"] = Span(f"{'>' if ascii_only else '▸'}{rank.rank:>4}", "accent")
        lines.append(row_line(columns, cells, width, ascii_only))
    return tuple(lines)


def _is_known(key: str, metric: str, known: Collection[str]) -> bool:
    needed = {"value": metric, "speed": "samples_per_s", "took": "step_s", **dict(PHASES)}.get(key)
    return needed is None or needed in known


def phase_shares(rank: Rank) -> dict[str, float]:
    """Return each known part's share (0 to 1) of a step, from the newest values; waiting is taken out of the backward pass.

    Times on the GPU replace those of the host, which runs ahead of it: what the host spends on data meanwhile delays nothing.
    Only some short steps have values for all parts: a part longer than the newest step belongs to another step, and parts
    that exceed it together are shares of their sum.
    """
    whole = rank.metrics.get("step_s")
    if not whole or not whole > 0:
        return {}
    shares = {name: rank.metrics[metric] / whole for name, metric in PHASES if metric in rank.metrics}
    device = _device_shares(rank)
    if device:
        # Where a part was not timed on the GPU, as in a compiled model, the host's time for it would say something else.
        if "data" in shares:
            shares["data"] = min(shares["data"], max(0.0, 1.0 - sum(device.values())))
        queued = {name for name, _ in DEVICE_PHASES}
        shares = {name: share for name, share in shares.items() if name not in queued} | device
    known = {name: shares[name] for name, _ in PHASES if name in shares and 0 <= shares[name] <= 1}
    return of_one_step(apart(known))


def _device_shares(rank: Rank) -> dict[str, float]:
    """Return the parts of a step that were timed on the GPU as shares of that step; empty if none was."""
    whole = rank.metrics.get(DEVICE_STEP)
    if not whole or not whole > 0:
        return {}
    shares = {name: rank.metrics[metric] / whole for name, metric in DEVICE_PHASES if metric in rank.metrics}
    return {name: share for name, share in shares.items() if 0 <= share <= 1}


def apart(shares: Mapping[str, float]) -> dict[str, float]:
    """Return the shares with waiting for other ranks taken out of the backward pass, which holds it as ranks report it."""
    if "wait" not in shares or "bwd" not in shares:
        return dict(shares)
    return {**shares, "bwd": max(0.0, shares["bwd"] - shares["wait"])}


def of_one_step(shares: Mapping[str, float]) -> dict[str, float]:
    """Return shares that add up to no more than 1."""
    total = max(1.0, sum(shares.values()))
    return {word: share / total for word, share in shares.items()}


def _cells(rank: Rank, metric: str, devices: str) -> dict[str, Span]:
    value = rank.metrics.get(metric)
    state = rank.state if rank.exit_code in (None, 0) else f"{rank.state} ({rank.exit_code})"
    shares = phase_shares(rank)
    took = rank.metrics.get("step_s")
    return {
        "rank": Span(str(rank.rank)),
        "pid": Span(str(rank.pid) if rank.pid is not None else units.UNKNOWN),
        "device": Span(devices or "-", "text" if devices else "dim"),
        "step": Span(units.count(rank.step)),
        "value": Span(units.metric(value), "dim" if value is None else "value" if math.isfinite(value) else "bad"),
        "speed": Span(units.rounded(rank.metrics.get("samples_per_s"))),
        "took": Span(units.UNKNOWN, "dim") if took is None else Span(f"{took * 1e3:.1f} ms"),
        **{name: Span(f"{shares[name] * 100:.0f}%") if name in shares else Span(units.UNKNOWN, "dim") for name, _ in PHASES},
        "state": Span(state, STATE_STYLES.get(rank.state, "text")),
    }
