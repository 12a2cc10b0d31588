"""The energy that a run uses per sample: the power of its GPUs divided by its throughput. Pure."""

from __future__ import annotations

import math
from bisect import bisect_left

from gputop import units
from gputop.snapshot import LIVE_STATES, Run
from gputop.tui.drawing import run_numbers
from gputop.tui.state.view import View

POWER_WINDOW_S = 60.0
"""The power is the mean of the last minute, so that an evaluation or a checkpoint does not make the number jump."""


def energy_words(view: View, run: Run) -> str | None:
    """Return "1.3 J/sample", or "8.2 tokens/J" where one takes less than a joule."""
    speed, watts = run_numbers.speed(run), power_w(view, run)
    if speed is None or watts is None or not 0 < speed[1] < math.inf:
        return None
    unit = run_numbers.speed_unit(speed[0]).removesuffix("/s")
    joules = watts / speed[1]
    return f"{units.metric(joules, 2)} J/{unit.removesuffix('s')}" if joules >= 1 else f"{units.metric(1 / joules, 2)} {unit}/J"


def power_w(view: View, run: Run) -> float | None:
    """Return the mean power of a live run's GPUs in W.

    None if a rank is on another machine, if other processes use one of the GPUs, or if the power of one is unknown.
    """
    snapshot = view.snapshot
    known = len(run.ranks) if run.world_size is None else run.world_size
    if run.state not in LIVE_STATES or len(run.ranks) != known or any(rank.elsewhere for rank in run.ranks):
        return None
    uuids = set(run_numbers.device_uuids(run, snapshot))
    pids = {rank.local_pid for rank in run.ranks}
    shared = any(
        use.device_uuid in uuids and process.run_id != run.run_id and process.pid not in pids
        for process in snapshot.processes
        for use in process.devices
    )
    if not uuids or shared:
        return None
    total = 0.0
    for uuid in uuids:
        series = view.history.device(uuid, "power_w")
        if series is None or not series.buckets:
            return None
        buckets = series.buckets
        newest = bisect_left(buckets.x_last, snapshot.time - POWER_WINDOW_S)
        last_minute = buckets.merged(newest, len(buckets)) if newest < len(buckets) else None
        if last_minute is None or not last_minute.count:
            return None
        total += last_minute.mean
    return total if total > 0 else None
