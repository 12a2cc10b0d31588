"""A run's metrics aggregated over its ranks: step, throughput, time left, final loss. Pure; None if unknown."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from gputop import units
from gputop.facts import setup
from gputop.facts.parallel import ProcessGroup
from gputop.facts.table import Facts
from gputop.history.history import History
from gputop.history.metrics import MetricSeries
from gputop.losses import are_automatic
from gputop.snapshot import LIVE_STATES, LOSS_METRICS, Run, Snapshot, loss_metric, own_or_automatic

SPEED_METRICS = ("samples_per_s", "tokens_per_s", "images_per_s", "items_per_s")
"""Throughput of one rank; the run's is the sum over its ranks, counting ranks that get the same samples once."""
ACCURACY_METRICS = ("accuracy", "val_accuracy", "test_accuracy", "eval/accuracy", "acc")
EPOCH_METRIC = "epoch"
RATE_WINDOW_S = 60.0
"""Steps per second are measured over the last minute, so that an evaluation does not make the remaining time jump."""
TREND_SHARE, TREND_LEAST, TREND_MOST = 0.1, 5, 200
"""A trend compares the newest values, this fraction of all, with as many before them."""
TREND_CHANGE = 0.005
"""Means that differ by less than this share are equal."""
TREND_ERRORS = 3.0
"""Means that differ by less than this many of their standard errors are equal: a noisy loss that stays gets no arrow down."""
SILENT_AFTER_S, SILENT_GAPS = 60.0, 3.0
"""A run that has logged nothing for a minute, and for this many of its usual gaps, has no pace: its last one is outdated."""
_RECORDS = 5
"""This many of a rank's newest records show how often it logs."""
_WARM_UP_SHARE = 0.25
"""The first quarter of a run's speeds is left out of its mean: compilation, caches, the first batches."""


def total_steps(run: Run) -> int | None:
    """Return how many steps the run will take, as reported by the run itself."""
    for rank in run.ranks:
        facts = Facts(rank.facts)
        total = facts.progress.total_steps if facts.progress is not None else facts.total_steps
        if total:
            return total
    return None


def counts_lines(run: Run) -> bool:
    """Return whether a run's steps are the lines that it printed, because no line shows a step."""
    return any(setup.counts_lines(rank.facts) for rank in run.ranks)


def seconds_left(run: Run, history: History) -> float | None:
    """Return the time to the last step at the pace of the newest steps; None if unknown, or if the loss is NaN or infinite.

    Such a run has nothing left to wait for. Nothing is known either about a run that continues after its last step.
    """
    now, total = run.step, total_steps(run)
    if run.state not in LIVE_STATES or now is None or total is None or not_finite_since(run, history) is not None:
        return None
    if now > total or silent_ranks(run, history):
        return None  # its total was wrong, or a rank has stopped
    pace = steps_per_s(run, history)
    return (total - now) / pace if pace else None


def silent_s(run: Run, history: History, now: float) -> float | None:
    """Return for how long a live run has logged nothing, if that is longer than usual for it or a signal has stopped it.

    None while its newest pace and throughput are current. ``now`` is the time of the snapshot.
    """
    times = [rank.last_log_at for rank in run.ranks if rank.last_log_at is not None]
    if run.state not in LIVE_STATES or not times:
        return None
    silent = max(0.0, now - max(times))
    if run.state != "running":
        return silent
    every = history.metric(run.run_id, loss_name(run) or "step_s").values()
    return silent if _is_unusual(silent, *(_usual_gap_s(series) for series in every)) else None


def silent_ranks(run: Run, history: History) -> dict[int, float]:
    """Return rank -> for how long it has logged nothing while others of this machine did, if that is longer than usual for it.

    A rank that has logged fewer than three times has no usual gap.
    """
    last = {rank.rank: rank.last_log_at for rank in run.ranks if rank.state == "running" and rank.local_pid is not None}
    known = {rank: at for rank, at in last.items() if at is not None}
    if run.state != "running" or len(known) < 2:
        return {}
    newest = max(known.values())
    silent = {rank: newest - at for rank, at in known.items() if newest - at > SILENT_AFTER_S}
    metric = history.metric(run.run_id, loss_name(run) or "step_s") if silent else {}
    return {
        rank: seconds
        for rank, seconds in silent.items()
        if rank in metric and len(metric[rank].newest.times) > 2 and _is_unusual(seconds, _usual_gap_s(metric[rank]))
    }


def _usual_gap_s(series: MetricSeries) -> float:
    return max((later - earlier for earlier, later in pairwise(series.newest.times[-_RECORDS:])), default=0.0)


def _is_unusual(silent_s: float, *gaps_s: float) -> bool:
    return silent_s > max(SILENT_AFTER_S, SILENT_GAPS * max(gaps_s, default=0.0))


def steps_per_s(run: Run, history: History) -> float | None:
    """Return the pace of the slowest rank over the last minute, from the times at which its steps were logged.

    Steps are what ``run.step`` counts: if the script numbers its own values, automatic ones do not count.
    """
    names = history.metrics(run.run_id)
    if any(rank.optimizer_step is not None for rank in run.ranks):
        names = tuple(name for name in names if not are_automatic((name,)))
    for name in sorted(names, key=lambda name: name not in LOSS_METRICS):
        paces = [pace for series in history.metric(run.run_id, name).values() if (pace := _pace(series)) is not None]
        if paces:
            return min(paces)
    return None


def _pace(series: MetricSeries) -> float | None:
    steps, times = series.by_step.buckets.x_last, series.by_time.buckets.x_last
    if len(steps) < 2 or len(steps) != len(times):
        return None
    last = len(times) - 1
    first = min(last - 1, bisect_left(times, times[last] - RATE_WINDOW_S, 0, last))
    # All values that an untracked run printed before gputop started have one time: it is right only for the last of them.
    first = bisect_right(times, times[first], first, last) - 1
    passed, done = times[last] - times[first], steps[last] - steps[first]
    return done / passed if passed > 0 and done > 0 else None


def steps_behind(run: Run, history: History) -> dict[int, int | None]:
    """Return rank -> how many steps it is behind the first one; None if unknown.

    Where the script numbers its own values, only optimizer steps can be compared. A rank whose next record is not due yet is
    not behind.
    """
    by_optimizer = any(rank.optimizer_step is not None for rank in run.ranks)
    counted: dict[int, int | None] = {}
    for rank in run.ranks:
        is_own_number = by_optimizer and rank.optimizer_step is None and not are_automatic(rank.metrics)
        counted[rank.rank] = None if is_own_number else rank.steps_taken
    known = [step for step in counted.values() if step is not None]
    if len(known) < 2:
        return dict.fromkeys(counted)
    logged = ("step_s",) if by_optimizer else ("step_s", loss_name(run) or "loss")
    every = _steps_between_records([history.metric(run.run_id, name) for name in logged])
    behind = {rank: None if step is None else max(known) - step for rank, step in counted.items()}
    return {rank: steps if steps is None or steps > every.get(rank, 0) else 0 for rank, steps in behind.items()}


def _steps_between_records(metrics: Iterable[Mapping[int, MetricSeries]]) -> dict[int, int]:
    """Return rank -> how many steps pass between its newest records, by the metric that it logs most often."""
    every: dict[int, int] = {}
    for metric in metrics:
        for rank, series in metric.items():
            newest = series.newest.steps[-_RECORDS:]
            if len(newest) > 1:
                apart = max(later - earlier for earlier, later in pairwise(newest))
                every[rank] = min(apart, every.get(rank, apart))
    return every


def speed(run: Run) -> tuple[str, float] | None:
    """Return the name of the run's throughput metric and its current sum; None if unknown."""
    for name in SPEED_METRICS:
        values = {rank.rank: rank.metrics[name] for rank in run.ranks if name in rank.metrics}
        if values:
            total = _over_ranks(run, values)
            return None if total is None else (name, total)
    return None


def pace(run: Run, history: History) -> tuple[str, float] | None:
    """Return the run's pace per second as (unit, value): its throughput, else its steps; None if unknown."""
    found = speed(run)
    if found is not None:
        return (speed_unit(found[0]), found[1]) if math.isfinite(found[1]) else None
    steps = steps_per_s(run, history)
    return None if steps is None else ("steps/s", steps)


def sharing(run: Run, ranks: Iterable[int]) -> list[list[int]] | None:
    """Return these ranks in groups that receive the same samples, as in tensor parallelism; None if that is unknown."""
    groups: dict[tuple[bool, int], list[int]] = {}
    facts = {rank.rank: rank.facts for rank in run.ranks}
    for rank in ranks:
        group = Facts(facts.get(rank, {})).process_group
        if group is None or group.world_size == 1:
            groups[False, rank] = [rank]
        elif group.data_rank is not None:
            groups.setdefault((True, group.data_rank), []).append(rank)
        elif group.has(ProcessGroup.data_rank) or (group.groups or 0) > 1 or len(group.mesh) > 1:
            return None  # the rank could not determine it, or an earlier version did not try
        else:
            groups[False, rank] = [rank]
    return list(groups.values())


def _over_ranks(run: Run, values: Mapping[int, float]) -> float | None:
    groups = sharing(run, values)
    return None if groups is None else sum(max(values[rank] for rank in group) for group in groups)


def speed_unit(name: str) -> str:
    """Return the unit of a throughput metric: "samples_per_s" -> "samples/s"."""
    return name.removesuffix("_per_s").replace("images", "img") + "/s"


def trend(run: Run, name: str, history: History) -> str:
    """Return whether a metric falls, rises or stays ("↓", "↑", "→"), by its newest values against those before them.

    The values are those of one rank, over the last ``TREND_SHARE`` of its history; empty while there are too few. A rank that
    was restarted begins a new history: its loss is that of the first steps again.
    """
    number, series = next(iter(history.metric(run.run_id, name).items()), (0, None))
    since = next((rank.restarted_at for rank in run.ranks if rank.rank == number), None) or -math.inf
    held = [bucket for bucket in series.by_time.buckets if bucket.count and bucket.x_first >= since] if series else []
    part = min(TREND_MOST, int(len(held) * TREND_SHARE))
    if part < TREND_LEAST:
        return ""
    earlier = [bucket.mean for bucket in held[-2 * part : -part]]
    newest = [bucket.mean for bucket in held[-part:]]
    before, now = units.mean(earlier), units.mean(newest)
    spread = max(max(abs(before), abs(now)) * TREND_CHANGE, TREND_ERRORS * _error_of_difference(earlier, newest))
    return "↓" if now < before - spread else "↑" if now > before + spread else "→"


def _error_of_difference(one: Sequence[float], other: Sequence[float]) -> float:
    """Return the standard error of the difference between two means of as many values each."""
    means = units.mean(one), units.mean(other)
    squares = sum((value - mean) ** 2 for values, mean in zip((one, other), means, strict=True) for value in values)
    return math.sqrt(squares) / len(one)


def mean_speed(run: Run, history: History) -> float | None:
    """Return the run's mean throughput after its warm-up, summed over the ranks; before there is a mean, the current one."""
    for name in SPEED_METRICS:
        series = history.metric(run.run_id, name)
        means = {rank: mean for rank, item in series.items() if (mean := _settled_mean(item)) is not None}
        if means:
            total = _over_ranks(run, means)
            return None if total is None else _finite(total)
    found = speed(run)
    return _finite(found[1]) if found else None


def _finite(value: float) -> float | None:
    """Return the speed if it can be compared with others, else None."""
    return value if math.isfinite(value) else None


def _settled_mean(series: MetricSeries) -> float | None:
    buckets = series.by_step.buckets
    settled = buckets[int(len(buckets) * _WARM_UP_SHARE) :]
    count = sum(bucket.count for bucket in settled)
    return sum(bucket.total for bucket in settled) / count if count else None


def latest(run: Run, name: str) -> float | None:
    """Return the mean over the ranks of a metric's newest values; if any is not finite, the first such value.

    If a rank logs no metric of this name, its automatic one counts. For epochs, return the one that all ranks have reached.
    """
    names = [own_or_automatic(name, rank.metrics) for rank in run.ranks]
    values = [rank.metrics[own] for own, rank in zip(names, run.ranks, strict=True) if own in rank.metrics]
    lost = next((value for value in values if not math.isfinite(value)), None)
    if lost is not None or not values:
        return lost
    return min(values) if name == EPOCH_METRIC else units.mean(values)


def loss_name(run: Run) -> str | None:
    """Return which of the run's metrics is its training loss."""
    return loss_metric(name for rank in run.ranks for name in rank.metrics)


def first_known(run: Run, names: tuple[str, ...]) -> float | None:
    """Return the newest value of the first of these metrics that the run has."""
    return next((value for name in names if (value := latest(run, name)) is not None), None)


def not_finite_since(run: Run, history: History) -> int | None:
    """Return the first step from which on a rank's training loss is NaN or infinite; None while it is a number."""
    name = loss_name(run)
    if name is None:
        return None
    found = [series.not_finite_since for series in history.metric(run.run_id, name).values()]
    return min((step for step in found if step is not None), default=None)


def loss(run: Run) -> float | None:
    """Return the newest loss, averaged over the ranks."""
    name = loss_name(run)
    return latest(run, name) if name is not None else None


def accuracy(run: Run) -> float | None:
    """Return the newest accuracy, as the run logged it."""
    return first_known(run, ACCURACY_METRICS)


def device_uuids(run: Run, snapshot: Snapshot) -> tuple[str, ...]:
    """Return the devices that the run's processes use now, in device order."""
    pids = {rank.local_pid for rank in run.ranks if rank.local_pid is not None}
    used = {
        use.device_uuid
        for process in snapshot.processes
        if process.run_id == run.run_id or process.pid in pids
        for use in process.devices
    }
    return tuple(device.uuid for device in snapshot.devices if device.uuid in used)
