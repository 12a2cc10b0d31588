"""The history of one machine: the readings of its devices and processes, and the metrics of its runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from itertools import compress
from typing import TYPE_CHECKING

from gputop.history.metrics import ENDED_RUNS_KEPT, MetricMemory, MetricSeries
from gputop.history.series import BUCKETS, X_MAX, Series

if TYPE_CHECKING:
    from gputop.process import ProcessKey
    from gputop.run_questions import GpuPast
    from gputop.snapshot import Points, Process, Snapshot

DEVICE_READINGS = ("utilization_percent",)
"""The readings that the dashboard draws for every GPU. With 64 GPUs, each takes 14 MiB."""
DETAIL_READINGS = (
    "sm_activity_percent",
    "tensor_activity_percent",
    "dram_activity_percent",
    "memory_used_bytes",
    "power_w",
    "temperature_c",
    "sm_clock_mhz",
    "nvlink_bytes_per_s",
    "pcie_bytes_per_s",
)
"""The readings that are drawn for one GPU at a time."""
DETAIL_BUCKETS = 512
"""Buckets of each of these: at 1 Hz, 8 minutes at full resolution. With 64 GPUs, each takes under 2 MiB."""
PROCESS_READINGS = ("memory_used_bytes", "sm_utilization_percent")
"""The readings of a process on a device (fields of ``DeviceUse``) that are drawn for one process at a time."""
RANK_READINGS = ("cpu_percent", "thread_count")
"""The readings of a rank of an untracked run (fields of ``Process``) that are drawn for such a run."""
PROCESS_BUCKETS, PROCESSES_KEPT = 256, 256
"""Buckets of each of these, and how many processes keep them: together at most about 8 MiB per device of a process, and 8 MiB
for the ranks of untracked runs."""
_OF_PROCESS = ""
"""In the place of a device's UUID: the reading is of the process itself."""
REASONS_KEPT = 512
"""Changes of a GPU's throttle reasons that are kept."""
SHARED_DEVICE_BUCKETS, SHARED_METRIC_BUCKETS = 512, 64
"""Fewest buckets of each series if many machines are watched: 128 machines with 8 GPUs each must fit into 300 MiB."""
PAST_BUCKETS = 1024
"""Buckets of each recorded reading of a run's GPU."""
RECORDED_READINGS = ("utilization_percent", "memory_used_bytes", "power_w")
"""The readings that a run records of its GPUs."""


def _add(held: dict[tuple[str, str], Series], key: tuple[str, str], time: float, value: float | None) -> None:
    if value is not None:
        series = held.get(key)
        if series is None:
            series = held[key] = Series(PROCESS_BUCKETS)
        series.append(time, float(value))


class History:
    """All series of one machine, built from snapshots in order. If machines share a screen, each keeps fewer buckets."""

    def __init__(self, shared_by: int = 1) -> None:
        """``shared_by`` is the number of machines that the screen watches."""
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
        ranks = {rank.pid for run in snapshot.process_runs for rank in run.ranks}
        listed = {
            process.key: process
            for process in snapshot.processes
            if process.devices or (process.pid in ranks and process.in_namespace)
        }
        # The newest are added last, so that those that ended longest ago are forgotten first.
        known = [key for key in listed if key in self._processes]
        if known != list(self._processes)[-len(known) :]:
            for key in known:
                self._processes[key] = self._processes.pop(key)
        for key, process in listed.items():
            held = self._processes.get(key)
            if held is None:
                if len(self._processes) >= PROCESSES_KEPT:
                    oldest = next(iter(self._processes))
                    if oldest in listed:
                        continue  # more processes run than are kept: the first ones keep their past
                    del self._processes[oldest]
                held = self._processes[key] = {}
            for use in process.devices:
                for reading in PROCESS_READINGS:
                    _add(held, (use.device_uuid, reading), snapshot.time, getattr(use, reading))
            if process.pid in ranks:
                for reading in RANK_READINGS:
                    _add(held, (_OF_PROCESS, reading), snapshot.time, getattr(process, reading))

    def process(self, process: Process, uuid: str, reading: str) -> Series | None:
        """Return a reading of ``PROCESS_READINGS`` of a process on a device; None if it was never known."""
        return self._processes.get(process.key, {}).get((uuid, reading))

    def rank(self, process: Process, reading: str) -> Series | None:
        """Return a reading of ``RANK_READINGS`` of a rank of an untracked run; None if it was never known."""
        return self._processes.get(process.key, {}).get((_OF_PROCESS, reading))

    def recall(self, points: Iterable[Points]) -> None:
        """Add the past of runs that the stream does not carry; a run whose metrics are known keeps them."""
        self.memory.recall(points)

    def keep(self, run_ids: Iterable[str]) -> None:
        """Forget these runs last of all that the stream does not carry."""
        for run_id in run_ids:
            self.memory.keep(run_id)
            if run_id in self._gpus:
                self._gpus[run_id] = self._gpus.pop(run_id)

    def recall_gpus(self, run_id: str, pasts: Iterable[GpuPast]) -> None:
        """Load the recorded readings of a run's GPUs, which replace what is already known."""
        self._gpus.pop(run_id, None)
        self._gpus[run_id] = {}
        for past in pasts:
            if past.run_id != run_id or not past.is_whole:
                continue
            self._gpus[run_id][past.uuid] = past.index
            for reading in RECORDED_READINGS:
                series = self._recorded[run_id, past.uuid, reading] = Series(PAST_BUCKETS)
                times, values = past.times, getattr(past, reading)
                is_known = [value is not None and -X_MAX <= time <= X_MAX for time, value in zip(times, values, strict=True)]
                series.extend(list(compress(times, is_known)), list(compress(values, is_known)))
        kept = list(self._gpus)[-ENDED_RUNS_KEPT:]
        self._gpus = {run_id: self._gpus[run_id] for run_id in kept}
        self._recorded = {key: series for key, series in self._recorded.items() if key[1] in self._gpus.get(key[0], ())}

    def gpus_of(self, run_id: str) -> Mapping[str, int | None]:
        """Return UUID -> index of each GPU that was recorded for a run."""
        return self._gpus.get(run_id, {})

    def recorded(self, run_id: str, uuid: str, reading: str) -> Series | None:
        """Return a reading of a GPU that was recorded for a run; None if it was not."""
        found = self._recorded.get((run_id, uuid, reading))
        return found if found is not None and found.buckets else None

    def device(self, uuid: str, reading: str) -> Series | None:
        """Return the series of a reading (a field name of ``Device``), or None if it was never known."""
        return self._devices.get((uuid, reading))

    def throttling(self, uuid: str) -> tuple[tuple[float, tuple[str, ...]], ...]:
        """Return (time, throttle reasons from then on) of a device, oldest first; the first may have begun earlier."""
        return tuple(self._reasons.get(uuid, ()))

    def metrics(self, run_id: str) -> tuple[str, ...]:
        """Return the names of a run's metrics in order of first appearance."""
        return self.memory.names(run_id)

    def metric(self, run_id: str, name: str) -> dict[int, MetricSeries]:
        """Return rank -> series of one metric, or of its automatic counterpart; empty if unknown."""
        return self.memory.metric(run_id, name)
