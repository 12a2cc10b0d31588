"""A snapshot and the doctor's findings as samples of metrics. Pure; what is unknown gives no sample, never 0."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeVar

from gputop import units
from gputop.doctor.findings.finding import Finding
from gputop.snapshot import LIVE_STATES, Device, Process, Run, Snapshot, loss_metric
from gputop.terminal_text import printable

RUNS_MAX, RANKS_MAX, PROCESSES_MAX, FINDINGS_MAX = 50, 256, 256, 100
"""Limits of a scrape, whatever happens on the machine; ``gputop_left_out`` counts the rest."""
LABEL_MAX_CHARACTERS = 100
"""A longer label is cut."""
_MHZ = 1e6
T = TypeVar("T")


class Sample(NamedTuple):
    """One value of a metric of ``names.METRICS``, with a value for each of its labels."""

    metric: str
    labels: tuple[str, ...]
    value: float


class _Reading(NamedTuple):
    """A field of ``Device`` as a metric: the values of its own labels, and what to multiply with."""

    field: str
    metric: str
    labels: tuple[str, ...] = ()
    scale: float = 1.0


_READINGS = (
    _Reading("utilization_percent", "hw_gpu_utilization_ratio", ("general",), 0.01),
    _Reading("memory_used_bytes", "hw_gpu_memory_usage_bytes"),
    _Reading("memory_total_bytes", "hw_gpu_memory_limit_bytes"),
    _Reading("power_w", "hw_power_watts"),
    _Reading("energy_j", "hw_energy_joules"),
    _Reading("temperature_c", "hw_temperature_celsius", ("gpu",)),
    _Reading("memory_temperature_c", "hw_temperature_celsius", ("memory",)),
    _Reading("temperature_slowdown_c", "hw_temperature_limit_celsius", ("high.degraded",)),
    _Reading("temperature_shutdown_c", "hw_temperature_limit_celsius", ("high.critical",)),
    _Reading("ecc_corrected", "hw_errors", ("corrected",)),
    _Reading("ecc_uncorrected", "hw_errors", ("uncorrected",)),
    _Reading("sm_activity_percent", "gputop_gpu_activity_ratio", ("sm",), 0.01),
    _Reading("sm_occupancy_percent", "gputop_gpu_activity_ratio", ("sm_occupancy",), 0.01),
    _Reading("tensor_activity_percent", "gputop_gpu_activity_ratio", ("tensor",), 0.01),
    _Reading("dram_activity_percent", "gputop_gpu_activity_ratio", ("dram",), 0.01),
    _Reading("sm_clock_mhz", "gputop_gpu_clock_hertz", ("sm",), _MHZ),
    _Reading("memory_clock_mhz", "gputop_gpu_clock_hertz", ("memory",), _MHZ),
    _Reading("sm_clock_max_mhz", "gputop_gpu_clock_limit_hertz", ("sm",), _MHZ),
    _Reading("memory_clock_max_mhz", "gputop_gpu_clock_limit_hertz", ("memory",), _MHZ),
    _Reading("power_limit_w", "gputop_gpu_power_limit_watts"),
    _Reading("fan_percent", "gputop_gpu_fan_ratio", (), 0.01),
    _Reading("pcie_rx_bytes_per_s", "gputop_gpu_pcie_bytes_per_second", ("receive",)),
    _Reading("pcie_tx_bytes_per_s", "gputop_gpu_pcie_bytes_per_second", ("transmit",)),
    _Reading("nvlink_rx_bytes_per_s", "gputop_gpu_nvlink_bytes_per_second", ("receive",)),
    _Reading("nvlink_tx_bytes_per_s", "gputop_gpu_nvlink_bytes_per_second", ("transmit",)),
    _Reading("throttle_power_ns", "gputop_gpu_throttle_seconds", ("power_cap",), 1e-9),
    _Reading("throttle_sync_boost_ns", "gputop_gpu_throttle_seconds", ("sync_boost",), 1e-9),
    _Reading("throttle_thermal_sw_ns", "gputop_gpu_throttle_seconds", ("sw_thermal",), 1e-9),
    _Reading("throttle_thermal_hw_ns", "gputop_gpu_throttle_seconds", ("hw_thermal",), 1e-9),
    _Reading("throttle_power_brake_ns", "gputop_gpu_throttle_seconds", ("hw_power_brake",), 1e-9),
)
_STATUS = {"ok": "ok", "error": "failed", "lost": "failed"}
"""OpenTelemetry's words for a device's state; of a stale one, nothing is known."""


def samples_of(snapshot: Snapshot, findings: Sequence[Finding]) -> list[Sample]:
    """Return all samples of a machine at one moment."""
    host = snapshot.host
    about = (host.hostname, host.source, host.driver_version or "", host.cuda_version or "", str(host.simulated).lower())
    found = [
        Sample("gputop_snapshot_timestamp_seconds", (), snapshot.time),
        Sample("gputop_host_info", tuple(map(_label, about)), 1.0),
    ]
    for device in snapshot.devices:
        found += _device(device)
    left_out: dict[str, int] = {}
    runs = _most([run for run in snapshot.runs if run.state in LIVE_STATES], RUNS_MAX, "runs", left_out)
    for run in runs:
        found += _run(run, tracked=run.run_id not in snapshot.untracked_ids)
    ranks = [(run.run_id, rank) for run in runs for rank in run.ranks]
    for run_id, rank in _most(ranks, RANKS_MAX, "ranks", left_out):
        labels = (_label(run_id), str(rank.rank))
        found.append(Sample("gputop_rank_state", (*labels, rank.state), 1.0))
        found += _known("gputop_rank_step", labels, rank.step)
        found += _known("gputop_rank_last_record_timestamp_seconds", labels, rank.last_log_at)
    runs_of = _runs_of_processes(snapshot)
    processes = [process for process in snapshot.processes if process.pid in runs_of]
    for process in _most(processes, PROCESSES_MAX, "processes", left_out):
        found += _process(process, runs_of[process.pid])
    counted = Counter((one.id, one.severity, one.confidence, _label(one.run or "")) for one in findings)
    for finding, number in _most(list(counted.items()), FINDINGS_MAX, "findings", left_out):
        found.append(Sample("gputop_findings", finding, float(number)))
    found += [Sample("gputop_left_out", (what,), float(number)) for what, number in left_out.items()]
    return found


def _most(items: list[T], limit: int, what: str, left_out: dict[str, int]) -> list[T]:
    left_out[what] = max(0, len(items) - limit)
    return items[:limit]


def _device(device: Device) -> Iterator[Sample]:
    place = (device.mig_label or "").split(" ")[0] if device.kind == "mig" else ""
    labels = (_label(device.uuid), "gpu", _label(place) or str(device.index))
    names = (_label(device.name or ""), device.kind, _label(device.parent_uuid or ""))
    yield Sample("gputop_gpu_info", (*labels, *names), 1.0)
    if device.state in _STATUS:
        for state in ("ok", "failed"):
            yield Sample("hw_status", (*labels, state), float(_STATUS[device.state] == state))
    if device.state != "ok":
        return  # its values are old
    for reading in _READINGS:
        value = getattr(device, reading.field)
        if value is not None:
            yield Sample(reading.metric, (*labels, *reading.labels), value * reading.scale)
    if device.memory_used_bytes is not None and device.memory_total_bytes:
        share = device.memory_used_bytes / device.memory_total_bytes
        yield Sample("hw_gpu_memory_utilization_ratio", labels, share)
    for reason in device.throttle_reasons:
        yield Sample("gputop_gpu_throttled", (*labels, _label(reason)), 1.0)


def _run(run: Run, *, tracked: bool) -> Iterator[Sample]:
    labels = (_label(run.run_id),)
    yield Sample("gputop_run_info", (*labels, _label(run.name), _label(run.project or ""), str(tracked).lower()), 1.0)
    yield Sample("gputop_run_state", (*labels, run.state), 1.0)
    yield Sample("gputop_run_ranks", labels, float(len(run.ranks)))
    yield from _known("gputop_run_step", labels, run.step)
    name = loss_metric(name for rank in run.ranks for name in rank.metrics)
    if name is not None:
        loss = units.mean([rank.metrics[name] for rank in run.ranks if name in rank.metrics])
        yield from _known("gputop_run_loss", (*labels, _label(name)), loss)


def _runs_of_processes(snapshot: Snapshot) -> Mapping[int, tuple[str, str]]:
    """Return PID -> (run id, rank) of the processes of runs, tracked or not."""
    found = {
        rank.pid: (run.run_id or run.key, "" if rank.rank is None else str(rank.rank))
        for run in snapshot.process_runs
        for rank in run.ranks
    }
    for process in snapshot.processes:
        if process.run_id is not None:
            found[process.pid] = (process.run_id, "" if process.rank is None else str(process.rank))
    return found


def _process(process: Process, run: tuple[str, str]) -> Iterator[Sample]:
    labels = (str(process.pid), _label(run[0]), run[1])
    yield from _known("gputop_process_cpu_cores", labels, process.cpu_percent, 0.01)
    yield from _known("gputop_process_memory_bytes", labels, process.memory_rss_bytes)
    for use in process.devices:
        on_gpu = (*labels, _label(use.device_uuid))
        yield from _known("gputop_process_gpu_memory_bytes", on_gpu, use.memory_used_bytes)
        yield from _known("gputop_process_sm_utilization_ratio", on_gpu, use.sm_utilization_percent, 0.01)


def _known(metric: str, labels: tuple[str, ...], value: float | None, scale: float = 1.0) -> Iterator[Sample]:
    if value is not None:
        yield Sample(metric, labels, value * scale)


def _label(text: str) -> str:
    """Return a name as a label: short, and safe to read with curl in a terminal."""
    return printable(text).encode("utf-8", "replace").decode()[:LABEL_MAX_CHARACTERS]
