"""The history of device readings and run metrics as min/max buckets, bounded however long it lasts.

A ``Series`` holds at most ``BUCKETS`` buckets. When they are full, neighbors are merged in pairs: the whole past remains, at
half the resolution, and no spike is lost, because a bucket keeps its smallest and largest value.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from gputop.snapshot import Points, Run, Snapshot

BUCKETS = 4096
"""At 1 Hz this is 68 minutes at full resolution, 2 h 16 min at 2 s, and so on."""

DEVICE_READINGS = (
    "utilization_percent",
    "memory_used_bytes",
    "power_w",
    "temperature_c",
    "sm_clock_mhz",
    "sm_activity_percent",
    "tensor_activity_percent",
    "pcie_rx_bytes_per_s",
    "pcie_tx_bytes_per_s",
)
ENDED_RUNS_KEPT = 20
X_MAX = 2.0**64
"""Beyond any step or time: values further out, or at NaN, have no place on an axis."""


@dataclass(slots=True)
class Bucket:
    """``count`` consecutive values between ``x_first`` and ``x_last``; ``non_finite`` counts NaN and infinities."""

    x_first: float
    x_last: float
    low: float
    high: float
    total: float
    count: int
    last: float
    non_finite: int = 0

    @property
    def mean(self) -> float:
        """Mean of the finite values; NaN if there are none. Clamped to their range, even if their sum overflows."""
        return min(self.high, max(self.low, self.total / self.count)) if self.count else math.nan

    def absorb(self, other: Bucket) -> None:
        """Merge the neighbor that follows."""
        self.x_first = min(self.x_first, other.x_first)
        self.x_last = max(self.x_last, other.x_last)
        self.low = min(self.low, other.low)
        self.high = max(self.high, other.high)
        self.total += other.total
        self.count += other.count
        self.non_finite += other.non_finite
        if other.count:
            self.last = other.last


class Series:
    """A bounded series of (x, value); x is time in seconds or a step, and may decrease."""

    __slots__ = ("buckets", "last", "last_x", "samples", "version", "width")

    def __init__(self) -> None:
        self.buckets: list[Bucket] = []
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
        finite = math.isfinite(value)
        new = (
            Bucket(x, x, value, value, value, 1, value)
            if finite
            else Bucket(x, x, math.inf, -math.inf, 0.0, 0, value, non_finite=1)
        )
        if self.samples % self.width == 0 or not self.buckets:
            if len(self.buckets) >= BUCKETS:
                self._halve()
            self.buckets.append(new)
        else:
            self.buckets[-1].absorb(new)
        self.samples += 1

    def _halve(self) -> None:
        merged = []
        for left, right in zip(self.buckets[::2], self.buckets[1::2], strict=False):
            left.absorb(right)
            merged.append(left)
        if len(self.buckets) % 2:
            merged.append(self.buckets[-1])
        self.buckets = merged
        self.width *= 2

    def span(self) -> tuple[float, float] | None:
        """Return the smallest and largest x, or None while empty."""
        if not self.buckets:
            return None
        return min(bucket.x_first for bucket in self.buckets), max(bucket.x_last for bucket in self.buckets)

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
                result[column] = Bucket(
                    bucket.x_first,
                    bucket.x_last,
                    bucket.low,
                    bucket.high,
                    bucket.total,
                    bucket.count,
                    bucket.last,
                    bucket.non_finite,
                )
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
            for reading in DEVICE_READINGS:
                value = getattr(device, reading)
                if value is not None:
                    self._devices.setdefault((device.uuid, reading), Series()).append(snapshot.time, float(value))
        for points in snapshot.points:
            self._add(points)
        self._forget(snapshot.runs)

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

    def metrics(self, run_id: str) -> tuple[str, ...]:
        """Return the names of a run's metrics in order of first appearance."""
        return tuple(self._metrics.get(run_id, {}))

    def metric(self, run_id: str, name: str) -> dict[int, MetricSeries]:
        """Return rank -> series of one metric; empty if unknown."""
        return self._metrics.get(run_id, {}).get(name, {})
