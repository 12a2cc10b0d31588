"""The history of device readings and run metrics as min/max buckets, bounded however long it lasts.

A ``Series`` holds a limited number of buckets. When they are full, neighbors are merged in pairs: the whole past remains, at
half the resolution, and no spike is lost, because a bucket keeps its smallest and largest value.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from gputop.history.buckets import Bucket, Buckets
from gputop.history.points import PointSeries
from gputop.losses import AUTOMATIC_PREFIX

if TYPE_CHECKING:
    from gputop.run_questions import GpuPast
    from gputop.snapshot import Points, Process, Snapshot

BUCKETS = 4096
"""At 1 Hz this is 68 minutes at full resolution, 2 h 16 min at 2 s, and so on."""

DEVICE_READINGS = ("utilization_percent",)
"""The readings that the dashboard draws of every GPU. Of 64 GPUs, each takes 14 MiB."""
DETAIL_READINGS = (
    "sm_activity_percent",
    "tensor_activity_percent",
    "dram_activity_percent",
    "memory_used_bytes",
    "power_w",
    "temperature_c",
    "sm_clock_mhz",
)
"""The readings that are drawn for one GPU at a time."""
DETAIL_BUCKETS = 512
"""Buckets of each of these: at 1 Hz, 8 minutes at full resolution. Of 64 GPUs, each takes under 2 MiB."""
PROCESS_READINGS = ("memory_used_bytes", "sm_utilization_percent")
"""The readings of a process on a device (fields of ``DeviceUse``) that are drawn for one process at a time."""
PROCESS_BUCKETS, PROCESSES_KEPT = 256, 256
"""Buckets of each of these, and how many processes keep them: together at most some 8 MiB for each device of a process."""
REASONS_KEPT = 512
"""Changes of a GPU's throttle reasons that are kept."""
SHARED_DEVICE_BUCKETS, SHARED_METRIC_BUCKETS = 512, 64
"""Fewest buckets of each series where many machines are watched: 128 machines with 8 GPUs each must fit into 300 MiB."""
METRICS_FULL = 128
"""So many metrics of ranks keep all their buckets, 38 MiB together; of more, each keeps half as many, a quarter, and so on."""
METRIC_BUCKETS_MIN = 256
PAST_BUCKETS = 1024
"""Buckets of each reading of a run's GPU as it was recorded."""
RECORDED_READINGS = ("utilization_percent", "memory_used_bytes", "power_w")
ENDED_RUNS_KEPT = 20
X_MAX = 2.0**64
"""Beyond any step or time: values further out, or at NaN, have no place on an axis."""
GAP_S = 60.0
"""A longer gap (a suspended machine, a jump in a replay) interrupts a stream, unless the intervals are longer."""


class Series:
    """A bounded series of (x, value); x is time in seconds or a step, and may decrease."""

    __slots__ = ("buckets", "last", "last_x", "limit", "samples", "version", "width")

    def __init__(self, limit: int = BUCKETS, values_of: Series | None = None) -> None:
        """``values_of``: the series whose values this one shares along another axis; append to that one first."""
        self.limit = limit
        self.buckets: Buckets = Buckets(values_of.buckets if values_of is not None else None)
        self.width = 1
        self.samples = 0
        self.version = 0
        """Increases with each value: a drawing stays valid while this is unchanged."""
        self.last: float | None = None
        self.last_x: float | None = None

    def append(self, x: float, value: float) -> None:
        """Add one value. NaN and infinities are counted and marked, but not averaged. Ignore a value without a valid x."""
        if -X_MAX <= x <= X_MAX:
            self.extend((x,), (value,))

    def extend(self, x: Sequence[float], values: Sequence[float]) -> None:
        """Add values, as many as ``x``, each of which is valid."""
        if not values:
            return
        self.version += len(values)
        self.last, self.last_x = values[-1], x[-1]
        start = 0
        while start < len(values):
            started = self.samples % self.width
            if started and self.buckets:
                end = start + self.width - started
                self.buckets.extend_last(x[start:end], values[start:end])
            else:
                if len(self.buckets) >= self.limit:
                    self._halve()
                    while len(self.buckets) >= self.limit and len(self.buckets) > 1:
                        self._halve()  # the limit was lowered
                if self.width == 1:
                    end = start + self.limit - len(self.buckets)
                    self.buckets.append_each(x[start:end], values[start:end])
                elif self.samples % self.width == 0 and len(values) - start >= self.width:
                    whole = min((len(values) - start) // self.width, self.limit - len(self.buckets))
                    end = start + whole * self.width
                    self.buckets.append_groups(x[start:end], values[start:end], self.width)
                else:
                    end = start + self.width - self.samples % self.width
                    self.buckets.append_all(x[start:end], values[start:end])
            end = min(end, len(values))
            self.samples += end - start
            start = end

    def _halve(self) -> None:
        self.buckets.halve()
        self.width *= 2

    def span(self) -> tuple[float, float] | None:
        """Return the smallest and largest x, or None while empty."""
        if not self.buckets:
            return None
        return min(self.buckets.x_first), max(self.buckets.x_last)

    def columns(self, start: float, end: float, count: int) -> list[Bucket | None]:
        """Return ``count`` buckets that divide [start, end] evenly; None where there are no values.

        A bucket belongs to the column of its middle x. The columns are copies: the caller may keep them.
        """
        result: list[Bucket | None] = [None] * count
        if count <= 0 or end <= start:
            return result
        for place, bucket in self.buckets.columns(0, len(self.buckets), start, end, count):
            held = result[place]
            if held is None:
                result[place] = bucket
            else:
                held.absorb(bucket)
        return result


ProcessKey: TypeAlias = "tuple[int, float | None]"


def process_key(process: Process) -> ProcessKey:
    """Return a key that distinguishes a process from a later one with its PID."""
    return process.pid, process.started_at


class MetricSeries:
    """One metric of one rank: its newest values, exact, and its whole past over steps and over time (wall-clock seconds)."""

    __slots__ = ("by_step", "by_time", "newest")

    def __init__(self, limit: int = BUCKETS) -> None:
        """``limit``: buckets of the past; with 0, it is not kept."""
        self.newest = PointSeries()
        self.by_step = Series(limit)
        self.by_time = Series(limit, values_of=self.by_step)

    def extend(self, steps: Sequence[int], times: Sequence[float], values: Sequence[float]) -> None:
        """Add values in order of arrival; columns of unequal length are cut to the shortest.

        A value whose step or time fits no axis is not added to the past.
        """
        self.newest.extend(steps, times, values)
        if not self.by_step.limit:
            return
        number = min(len(steps), len(times), len(values))
        steps, times, values = steps[:number], times[:number], values[:number]
        if not (_all_valid(steps) and _all_valid(times)):
            valid = [n for n in range(number) if _all_valid(steps[n : n + 1]) and _all_valid(times[n : n + 1])]
            steps, times, values = [steps[n] for n in valid], [times[n] for n in valid], [values[n] for n in valid]
        self.by_step.extend(steps, values)
        self.by_time.extend(times, values)


def _all_valid(x: Sequence[float]) -> bool:
    """Return whether each of these has a place on an axis. NaN has none, and makes any sum that it is part of NaN."""
    return not x or (min(x) >= -X_MAX and max(x) <= X_MAX and not math.isnan(sum(x)))


def is_interrupted(last: Snapshot | None, snapshot: Snapshot) -> bool:
    """Return whether a snapshot does not follow the last one: another machine, a restarted sampler, time back, or a gap."""
    if last is None:
        return False
    passed = snapshot.monotonic_s - last.monotonic_s
    gap = max(GAP_S, 3 * snapshot.interval_s) if math.isfinite(snapshot.interval_s) else GAP_S
    moved = (snapshot.host.hostname, snapshot.host.boot_id) != (last.host.hostname, last.host.boot_id)
    return moved or snapshot.sequence < last.sequence or passed < 0 or passed > gap


class MetricMemory:
    """The metrics of the runs of one stream: the only copy, shared by its screens and its doctor."""

    def __init__(self, buckets: int = BUCKETS, ended_runs: int = ENDED_RUNS_KEPT) -> None:
        """Args:
        buckets: How many each series keeps of its past; 0 keeps the newest values only. See ``METRICS_FULL``.
        ended_runs: How many runs to keep that the stream no longer lists.
        """
        self._buckets = self._limit = buckets
        self._ended_runs = ended_runs
        self._runs: dict[str, dict[str, dict[int, MetricSeries]]] = {}
        self._last: Snapshot | None = None

    def observe(self, snapshot: Snapshot) -> None:
        """Add the new points of one snapshot."""
        self.begin(snapshot)
        for points in snapshot.points:
            self.add(points)

    def begin(self, snapshot: Snapshot) -> None:
        """Forget what the next snapshot no longer covers: runs that it does not list, and the time before an interruption."""
        last, self._last = self._last, snapshot
        if last is not None and snapshot.sequence < last.sequence:
            self._runs.clear()  # a sampler that was started again sends the past of every run once more
        elif is_interrupted(last, snapshot):
            for series in [series for run in self._runs.values() for ranks in run.values() for series in ranks.values()]:
                series.newest.clear()
        listed = {run.run_id for run in snapshot.runs}
        gone = [run_id for run_id in self._runs if run_id not in listed]
        for run_id in gone[: len(gone) - self._ended_runs] if len(gone) > self._ended_runs else ():
            del self._runs[run_id]

    def add(self, points: Points) -> None:
        """Add new points."""
        ranks = self._runs.setdefault(points.run_id, {}).setdefault(points.metric, {})
        series = ranks.get(points.rank)
        if series is None:
            series = ranks[points.rank] = MetricSeries(self._limit)
            self._share_memory()
        series.extend(points.steps, points.times, points.values)

    def _share_memory(self) -> None:
        """Give each series fewer buckets where there are many; those that have more merge theirs when the next value comes."""
        number = sum(len(ranks) for run in self._runs.values() for ranks in run.values())
        limit = self._buckets
        while limit * number > self._buckets * METRICS_FULL and limit > METRIC_BUCKETS_MIN:
            limit //= 2
        if limit == self._limit:
            return
        self._limit = limit
        for run in self._runs.values():
            for ranks in run.values():
                for series in ranks.values():
                    series.by_step.limit = series.by_time.limit = limit

    def recall(self, points: Iterable[Points]) -> None:
        """Add the past of runs that the stream does not carry; a run whose metrics are known keeps them."""
        known = set(self._runs)
        for found in points:
            if found.run_id not in known:
                self.add(found)

    def names(self, run_id: str) -> tuple[str, ...]:
        """Return the names of a run's metrics in order of first appearance."""
        return tuple(self._runs.get(run_id, {}))

    def metric(self, run_id: str, name: str) -> dict[int, MetricSeries]:
        """Return rank -> series of one metric; empty if unknown.

        A rank whose script opened the run has its automatic values under "auto/…": they stand in where it has none of its own.
        """
        metrics = self._runs.get(run_id, {})
        return {**metrics.get(AUTOMATIC_PREFIX + name, {}), **metrics.get(name, {})}

    def series(self, run_id: str, rank: int, name: str) -> MetricSeries | None:
        """Return one rank's series of ``metric``; None if it has none."""
        metrics = self._runs.get(run_id, {})
        own = metrics.get(name, {}).get(rank)
        return own if own is not None else metrics.get(AUTOMATIC_PREFIX + name, {}).get(rank)


class History:
    """All series of one machine, built from snapshots in order. Where machines share a screen, each keeps fewer buckets."""

    def __init__(self, shared_by: int = 1) -> None:
        """``shared_by``: how many machines the screen watches."""
        share = BUCKETS // max(1, shared_by)
        self.memory = MetricMemory(max(SHARED_METRIC_BUCKETS, share))
        """The metrics of the runs, which the doctor of this stream reads too."""
        devices, details = max(SHARED_DEVICE_BUCKETS, share), min(DETAIL_BUCKETS, max(SHARED_METRIC_BUCKETS, share))
        self._limits = (*((name, devices) for name in DEVICE_READINGS), *((name, details) for name in DETAIL_READINGS))
        self._devices: dict[tuple[str, str], Series] = {}
        self._reasons: dict[str, deque[tuple[float, tuple[str, ...]]]] = {}
        self._processes: dict[ProcessKey, dict[tuple[str, str], Series]] = {}
        self._gpus: dict[str, dict[str, int | None]] = {}
        self._recorded: dict[tuple[str, str, str], Series] = {}
        self.started_at: float | None = None

    def observe(self, snapshot: Snapshot) -> None:
        """Add one snapshot: each device's readings at its time, and the new points of each run."""
        if self.started_at is None:
            self.started_at = snapshot.time
        for device in snapshot.devices:
            if device.state != "ok":
                continue
            for reading, limit in self._limits:
                value = getattr(device, reading)
                if value is not None:
                    series = self._devices.get((device.uuid, reading))
                    if series is None:
                        series = self._devices[device.uuid, reading] = Series(limit)
                    series.append(snapshot.time, float(value))
            reasons = self._reasons.setdefault(device.uuid, deque(maxlen=REASONS_KEPT))
            if not reasons or reasons[-1][1] != device.throttle_reasons:
                reasons.append((snapshot.time, device.throttle_reasons))
        self._observe_processes(snapshot)
        self.memory.observe(snapshot)

    def _observe_processes(self, snapshot: Snapshot) -> None:
        listed = {process_key(process): process for process in snapshot.processes if process.devices}
        for key in listed:
            # The newest come last, so that those that ended longest ago are forgotten first.
            if key in self._processes:
                self._processes[key] = self._processes.pop(key)
        for key, process in listed.items():
            held = self._processes.get(key)
            if held is None:
                if len(self._processes) >= PROCESSES_KEPT:
                    oldest = next(iter(self._processes))
                    if oldest in listed:
                        continue  # more run than are kept: those that came first keep their past
                    del self._processes[oldest]
                held = self._processes[key] = {}
            for use in process.devices:
                for reading in PROCESS_READINGS:
                    value = getattr(use, reading)
                    if value is not None:
                        series = held.get((use.device_uuid, reading))
                        if series is None:
                            series = held[use.device_uuid, reading] = Series(PROCESS_BUCKETS)
                        series.append(snapshot.time, float(value))

    def process(self, process: Process, uuid: str, reading: str) -> Series | None:
        """Return a reading of ``PROCESS_READINGS`` of a process on a device; None if it was never known."""
        return self._processes.get(process_key(process), {}).get((uuid, reading))

    def recall(self, points: Iterable[Points]) -> None:
        """Add the past of runs that the stream does not carry; a run whose metrics are known keeps them."""
        self.memory.recall(points)

    def recall_gpus(self, run_id: str, pasts: Iterable[GpuPast]) -> None:
        """Load what a run's GPUs did, as recorded; it replaces what is already known of it."""
        self._gpus.pop(run_id, None)
        self._gpus[run_id] = {}
        for past in pasts:
            if past.run_id != run_id or not past.is_whole:
                continue
            self._gpus[run_id][past.uuid] = past.index
            for reading in RECORDED_READINGS:
                series = self._recorded[run_id, past.uuid, reading] = Series(PAST_BUCKETS)
                for time, value in zip(past.times, getattr(past, reading), strict=True):
                    if value is not None:
                        series.append(time, float(value))
        kept = list(self._gpus)[-ENDED_RUNS_KEPT:]
        self._gpus = {run_id: self._gpus[run_id] for run_id in kept}
        self._recorded = {key: series for key, series in self._recorded.items() if key[1] in self._gpus.get(key[0], ())}

    def gpus_of(self, run_id: str) -> Mapping[str, int | None]:
        """Return UUID -> index of each GPU that was recorded with a run."""
        return self._gpus.get(run_id, {})

    def recorded(self, run_id: str, uuid: str, reading: str) -> Series | None:
        """Return a reading of a GPU as it was recorded with a run; None if it was not."""
        found = self._recorded.get((run_id, uuid, reading))
        return found if found is not None and found.buckets else None

    def device(self, uuid: str, reading: str) -> Series | None:
        """Return the series of a reading (a field name of ``Device``), or None if it was never known."""
        return self._devices.get((uuid, reading))

    def throttling(self, uuid: str) -> tuple[tuple[float, tuple[str, ...]], ...]:
        """Return (time, throttle reasons from then on) of a device, oldest first; the first may have held for longer."""
        return tuple(self._reasons.get(uuid, ()))

    def metrics(self, run_id: str) -> tuple[str, ...]:
        """Return the names of a run's metrics in order of first appearance."""
        return self.memory.names(run_id)

    def metric(self, run_id: str, name: str) -> dict[int, MetricSeries]:
        """Return rank -> series of one metric, else of its automatic one; empty if unknown."""
        return self.memory.metric(run_id, name)
