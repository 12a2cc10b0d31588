"""The last minute of the devices and of the processes' backward threads. Pure: no clock.

``Evidence`` keeps one ``DeviceHistory`` and feeds it each snapshot; an observation costs one pass over the devices.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from gputop.snapshot import Device, Host, Process, Snapshot

WINDOW_S = 60.0
"""Window over which clocks and throttling are judged (docs/rules.md#i01)."""
SPAN_MIN_S = 7.5
"""Shares of time are reported once this much of the window has been observed."""
KEPT_READINGS = 600
"""Maximum number of readings of a device: a minute at ten per second."""
KEPT_MINUTES = 60
"""Maximum number of minutes for which the power at work is kept."""
WORKING_PERCENT = 50.0
"""Clocks and links are judged while utilization is above this: both drop by design when a device is idle."""
OUT_OF_MEMORY_KEPT_S = 300.0
"""A kill by the kernel's OOM killer explains failures of runs for this long."""


class Reading(NamedTuple):
    """What one snapshot reports on one device, limited to what rules look back on."""

    time: float
    utilization_percent: float | None
    sm_clock_mhz: float | None
    power_w: float | None
    memory_used_bytes: float | None
    thermal_ns: float | None
    power_brake_ns: float | None
    throttle_reasons: tuple[str, ...]

    @property
    def working(self) -> bool:
        """Whether the device computes at this moment."""
        return self.utilization_percent is not None and self.utilization_percent >= WORKING_PERCENT


@dataclass(slots=True)
class _Minutes:
    """The mean power of a device at work, minute by minute: (when the minute began, watts)."""

    means: deque[tuple[float, float]] = field(default_factory=lambda: deque(maxlen=KEPT_MINUTES))
    began: float = -math.inf
    total_w: float = 0.0
    count: int = 0

    def add(self, now: float, power_w: float) -> None:
        if now - self.began >= WINDOW_S:
            if self.count:
                self.means.append((self.began, self.total_w / self.count))
            self.began, self.total_w, self.count = now, 0.0, 0
        self.total_w += power_w
        self.count += 1


class DeviceHistory:
    """The last minute of every GPU, GPUs that disappeared, OOM kills, and backward threads that ran."""

    def __init__(self) -> None:
        self._now = -math.inf
        self._readings: dict[str, deque[Reading]] = {}
        self._working: dict[str, list[Reading]] = {}
        self._means: dict[tuple[str, str], float | None] = {}
        self._missing: dict[str, Device] = {}
        self._known: dict[str, Device] = {}
        self._oom_kills: int | None = None
        self._killed: deque[tuple[float, int]] = deque(maxlen=KEPT_READINGS)
        self._threads: dict[tuple[int, float | None], deque[tuple[float, dict[int, float]]]] = {}
        self._first_uncorrected: dict[str, int] = {}
        self._minutes: dict[str, _Minutes] = {}

    def observe(self, snapshot: Snapshot) -> None:
        """Process the next snapshot of the stream."""
        self._now, self._working, self._means = snapshot.monotonic_s, {}, {}
        self._observe_devices(snapshot)
        self._observe_host(snapshot.host)
        self._observe_threads(snapshot.processes)

    def _observe_devices(self, snapshot: Snapshot) -> None:
        devices = {device.uuid: device for device in snapshot.devices}
        if snapshot.host.source == "nvml" and snapshot.host.problem is None:
            real = {uuid: device for uuid, device in devices.items() if device.kind == "gpu"}
            self._missing = {uuid: device for uuid, device in self._known.items() if uuid not in real}
            self._known |= real
        for uuid in self._readings.keys() - devices.keys():
            del self._readings[uuid]
        for uuid, device in devices.items():
            if device.ecc_uncorrected is not None:
                self._first_uncorrected.setdefault(uuid, device.ecc_uncorrected)
            if device.state != "ok":
                continue
            readings = self._readings.setdefault(uuid, deque(maxlen=KEPT_READINGS))
            readings.append(_reading(self._now, device))
            while readings[0].time < self._now - WINDOW_S:
                readings.popleft()
            if readings[-1].working and readings[-1].power_w is not None:
                self._minutes.setdefault(uuid, _Minutes()).add(self._now, readings[-1].power_w)

    def _observe_host(self, host: Host) -> None:
        if host.oom_kills is None:
            return
        new = host.oom_kills - self._oom_kills if self._oom_kills is not None else 0
        self._oom_kills = host.oom_kills
        if new > 0:
            self._killed.append((self._now, new))
        while self._killed and self._killed[0][0] < self._now - OUT_OF_MEMORY_KEPT_S:
            self._killed.popleft()

    def _observe_threads(self, processes: Iterable[Process]) -> None:
        seen = {}
        for process in processes:
            seconds = {index: value for index, value in process.autograd_threads if math.isfinite(value)}
            if not seconds:
                continue
            key = (process.pid, process.started_at)
            track = seen[key] = self._threads.get(key) or deque(maxlen=KEPT_READINGS)
            track.append((self._now, seconds))
            while track[0][0] < self._now - WINDOW_S:
                track.popleft()
        self._threads = seen

    def readings(self, uuid: str) -> Sequence[Reading]:
        """Return the device's readings of the last minute, oldest first."""
        return self._readings.get(uuid, ())

    def span_s(self, uuid: str) -> float:
        """Return how many seconds of the last minute the device was observed."""
        readings = self.readings(uuid)
        return readings[-1].time - readings[0].time if readings else 0.0

    def share_throttled(self, uuid: str, counter: str) -> float | None:
        """Return the share of the last minute (0 to 1) that a cumulative counter ("thermal_ns", "power_brake_ns") grew by.

        None if the driver does not count it, the counter was reset, or it was observed for less than 10 s.
        """
        readings = self.readings(uuid)
        if [*map(attrgetter(counter), readings)].count(None) == len(readings):
            return None
        first = next(_counted(readings, counter), None)
        if first is None:
            return None
        last = next(_counted(reversed(readings), counter), first)
        if last[0] - first[0] < SPAN_MIN_S:
            return None
        grown = last[1] - first[1]
        return min(1.0, grown / 1e9 / (last[0] - first[0])) if grown >= 0 else None

    def share_with_reason(self, uuid: str, reasons: Collection[str]) -> float:
        """Return the share of busy readings with one of the throttle ``reasons`` set; 0 before 10 s were observed."""
        if self.span_s(uuid) < SPAN_MIN_S:
            return 0.0
        working = self._at_work(uuid)
        if not working:
            return 0.0
        throttled = [reading.throttle_reasons for reading in working if reading.throttle_reasons]
        wanted = frozenset(reasons)
        return sum(not wanted.isdisjoint(said) for said in throttled) / len(working)

    def mean(self, uuid: str, name: str) -> float | None:
        """Return the mean of a field of ``Reading`` over the last minute; None if it is unknown. Cached for a snapshot."""
        key = uuid, name
        if key not in self._means:
            known = [value for value in map(attrgetter(name), self.readings(uuid)) if value is not None]
            self._means[key] = sum(known) / len(known) if known else None
        return self._means[key]

    def mean_at_work(self, uuid: str, name: str) -> float | None:
        """Return the mean of a field of ``Reading`` over the readings in which the device works."""
        values = [getattr(reading, name) for reading in self._at_work(uuid)]
        known = [value for value in values if value is not None]
        return sum(known) / len(known) if known else None

    def most_power_w(self, uuid: str, within_s: float) -> float | None:
        """Return the highest mean power of a whole minute in which the device worked, of those that began ``within_s``."""
        known = self._minutes.get(uuid)
        values = [power for began, power in known.means if began >= self._now - within_s] if known is not None else []
        return max(values, default=None)

    def _at_work(self, uuid: str) -> list[Reading]:
        """Return the readings in which the device works. Cached, because several rules use them for each snapshot."""
        if uuid not in self._working:
            readings = self.readings(uuid)
            self._working[uuid] = [r for r in readings if (r.utilization_percent or 0.0) >= WORKING_PERCENT]
        return self._working[uuid]

    def peak_memory_bytes(self, uuid: str) -> float | None:
        """Return the peak memory in use within the last minute."""
        values = [r.memory_used_bytes for r in self.readings(uuid) if r.memory_used_bytes is not None]
        return max(values) if values else None

    def utilizations(self, uuids: Sequence[str]) -> list[tuple[float, ...]]:
        """Return the utilization of several devices in columns, one row for each moment at which all are known."""
        columns = [{r.time: r.utilization_percent for r in self.readings(uuid)} for uuid in uuids]
        rows = []
        for time in columns[0] if columns else ():
            row = [column.get(time) for column in columns]
            values = tuple(value for value in row if value is not None)
            if len(values) == len(row):
                rows.append(values)
        return rows

    def missing(self) -> tuple[Device, ...]:
        """Return the GPUs that disappeared from the stream, each with its last reading."""
        return tuple(self._missing.values())

    def kills_for_memory(self) -> int:
        """Return how many processes the kernel's OOM killer ended in the last five minutes of the stream."""
        return sum(number for _, number in self._killed)

    def new_uncorrected(self, device: Device) -> int:
        """Return how many uncorrected memory errors occurred since the device was first observed."""
        if device.ecc_uncorrected is None:
            return 0
        return max(0, device.ecc_uncorrected - self._first_uncorrected.get(device.uuid, device.ecc_uncorrected))

    def backward_seconds(self, process: Process) -> dict[int, float]:
        """Return the CPU time of the backward threads that ran within the last minute, by device index."""
        track = self._threads.get((process.pid, process.started_at))
        if not track:
            return {}
        first, last = track[0][1], track[-1][1]
        return {index: last[index] - first[index] for index in last if index in first and last[index] > first[index]}


def _counted(readings: Iterable[Reading], counter: str) -> Iterator[tuple[float, float]]:
    """Yield (time, value) of the readings in which the driver reported the counter."""
    return ((reading.time, value) for reading in readings if (value := getattr(reading, counter)) is not None)


def _reading(now: float, device: Device) -> Reading:
    software, hardware = _finite(device.throttle_thermal_sw_ns), _finite(device.throttle_thermal_hw_ns)
    thermal = None if software is None and hardware is None else (software or 0) + (hardware or 0)
    return Reading(
        now,
        _finite(device.utilization_percent),
        _finite(device.sm_clock_mhz),
        _finite(device.power_w),
        _finite(device.memory_used_bytes),
        thermal,
        _finite(device.throttle_power_brake_ns),
        device.throttle_reasons,
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
