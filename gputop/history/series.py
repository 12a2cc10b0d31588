"""The history of device readings and run metrics as min/max buckets, bounded however long it lasts.

A ``Series`` holds a limited number of buckets. When they are full, neighbors are merged in pairs: the whole past remains, at
half the resolution, and no spike is lost, because a bucket keeps its smallest and largest value.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from gputop.history.buckets import Bucket, Buckets
from gputop.snapshot import AUTOMATIC_PREFIX, Points, Run, Snapshot

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
"""The readings that are drawn of one GPU at a time."""
DETAIL_BUCKETS = 512
"""Buckets of each of these: at 1 Hz, 8 minutes at full resolution. Of 64 GPUs, each takes under 2 MiB."""
REASONS_KEPT = 512
"""Changes of a GPU's throttle reasons that are kept."""
_LIMITS = (*((name, BUCKETS) for name in DEVICE_READINGS), *((name, DETAIL_BUCKETS) for name in DETAIL_READINGS))
ENDED_RUNS_KEPT = 20
X_MAX = 2.0**64
"""Beyond any step or time: values further out, or at NaN, have no place on an axis."""


class Series:
    """A bounded series of (x, value); x is time in seconds or a step, and may decrease."""

    __slots__ = ("buckets", "last", "last_x", "limit", "samples", "version", "width")

    def __init__(self, limit: int = BUCKETS) -> None:
        self.limit = limit
        self.buckets = Buckets()
        self.width = 1
        self.samples = 0
        self.version = 0
        """Increases with each value: a drawing stays valid while this is unchanged."""
        self.last: float | None = None
        self.last_x: float | None = None

    def append(self, x: float, value: float) -> None:
        """Add one value. NaN and infinities are counted and marked, but not averaged. Ignore a value without a valid x."""
        if not -X_MAX <= x <= X_MAX:
            return
        self.version += 1
        self.last, self.last_x = value, x
        if self.samples % self.width == 0 or not self.buckets:
            if len(self.buckets) >= self.limit:
                self.buckets.halve()
                self.width *= 2
            self.buckets.append(x, value)
        else:
            self.buckets.extend_last(x, value)
        self.samples += 1

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
        scale = count / (end - start)
        for bucket in self.buckets:
            middle = (bucket.x_first + bucket.x_last) / 2
            if not start <= middle <= end:
                continue
            column = min(count - 1, int((middle - start) * scale))
            held = result[column]
            if held is None:
                result[column] = bucket
            else:
                held.absorb(bucket)
        return result


@dataclass(slots=True)
class MetricSeries:
    """One metric of one rank, over steps and over time (wall-clock seconds)."""

    by_step: Series
    by_time: Series


class History:
    """All series of one machine, built from snapshots in order."""

    def __init__(self) -> None:
        self._devices: dict[tuple[str, str], Series] = {}
        self._reasons: dict[str, deque[tuple[float, tuple[str, ...]]]] = {}
        self._metrics: dict[str, dict[str, dict[int, MetricSeries]]] = {}
        self.started_at: float | None = None
        self._sequence = -1

    def observe(self, snapshot: Snapshot) -> None:
        """Add one snapshot: each device's readings at its time, and the new points of each run."""
        if self.started_at is None:
            self.started_at = snapshot.time
        if snapshot.sequence < self._sequence:
            # A sampler that was started again sends the past of every run once more.
            self._metrics.clear()
        self._sequence = snapshot.sequence
        for device in snapshot.devices:
            if device.state != "ok":
                continue
            for reading, limit in _LIMITS:
                value = getattr(device, reading)
                if value is not None:
                    series = self._devices.get((device.uuid, reading))
                    if series is None:
                        series = self._devices[device.uuid, reading] = Series(limit)
                    series.append(snapshot.time, float(value))
            reasons = self._reasons.setdefault(device.uuid, deque(maxlen=REASONS_KEPT))
            if not reasons or reasons[-1][1] != device.throttle_reasons:
                reasons.append((snapshot.time, device.throttle_reasons))
        for points in snapshot.points:
            self._add(points)
        self._forget(snapshot.runs)

    def recall(self, points: Iterable[Points]) -> None:
        """Add the past of runs that the stream does not carry; a run whose metrics are known keeps them."""
        known = set(self._metrics)
        for found in points:
            if found.run_id not in known:
                self._add(found)

    def _add(self, points: Points) -> None:
        ranks = self._metrics.setdefault(points.run_id, {}).setdefault(points.metric, {})
        series = ranks.get(points.rank)
        if series is None:
            series = ranks[points.rank] = MetricSeries(Series(), Series())
        for step, time, value in zip(points.steps, points.times, points.values, strict=True):
            series.by_step.append(step, value)
            series.by_time.append(time, value)

    def _forget(self, runs: Iterable[Run]) -> None:
        listed = {run.run_id for run in runs}
        gone = [run_id for run_id in self._metrics if run_id not in listed]
        for run_id in gone[:-ENDED_RUNS_KEPT]:
            del self._metrics[run_id]

    def device(self, uuid: str, reading: str) -> Series | None:
        """Return the series of a reading (a field name of ``Device``), or None if it was never known."""
        return self._devices.get((uuid, reading))

    def throttling(self, uuid: str) -> tuple[tuple[float, tuple[str, ...]], ...]:
        """Return (time, throttle reasons from then on) of a device, oldest first; the first may have held for longer."""
        return tuple(self._reasons.get(uuid, ()))

    def metrics(self, run_id: str) -> tuple[str, ...]:
        """Return the names of a run's metrics in order of first appearance."""
        return tuple(self._metrics.get(run_id, {}))

    def metric(self, run_id: str, name: str) -> dict[int, MetricSeries]:
        """Return rank -> series of one metric; empty if unknown.

        A rank whose script opened the run has its automatic values under "auto/…": they stand in where it has none of its own.
        """
        metrics = self._metrics.get(run_id, {})
        return {**metrics.get(AUTOMATIC_PREFIX + name, {}), **metrics.get(name, {})}
