"""Which metrics there are: their names, kinds, labels and meaning. The only list; dashboards and tests read it.

Names that begin with ``hw_`` are those of OpenTelemetry's conventions for hardware (``hw.gpu.memory.usage`` in bytes), written
as Prometheus writes them. What OpenTelemetry has no name for begins with ``gputop_``. Imports only the standard library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["gauge", "counter"]
_GPU = ("hw_id", "hw_type", "gpu")
"""UUID, always "gpu", and the index ("0:1" is a MIG instance)."""
_RANK = ("run_id", "rank")
_PROCESS = ("pid", "run_id", "rank")


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. A counter's name lacks the "_total" that Prometheus adds."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


METRICS: tuple[Metric, ...] = (
    Metric("gputop_up", "gauge", "1 while readings arrive, 0 if the newest is old."),
    Metric("gputop_snapshot_timestamp_seconds", "gauge", "When the newest reading was made."),
    Metric("gputop_left_out", "gauge", "Runs, ranks, processes or findings above the limit of series.", ("what",)),
    Metric(
        "gputop_host_info", "gauge", "This machine.", ("host_name", "source", "driver_version", "cuda_version", "simulated")
    ),
    Metric("gputop_gpu_info", "gauge", "A GPU, MIG instance or virtual GPU.", (*_GPU, "hw_name", "kind", "hw_parent")),
    Metric("hw_status", "gauge", "1 for the state that the GPU is in.", (*_GPU, "hw_state")),
    Metric("hw_gpu_utilization_ratio", "gauge", "Share of time with a kernel running, 0 to 1.", (*_GPU, "hw_gpu_task")),
    Metric("hw_gpu_memory_usage_bytes", "gauge", "GPU memory in use.", _GPU),
    Metric("hw_gpu_memory_limit_bytes", "gauge", "Total GPU memory.", _GPU),
    Metric("hw_gpu_memory_utilization_ratio", "gauge", "Share of GPU memory in use, 0 to 1.", _GPU),
    Metric("hw_power_watts", "gauge", "Power drawn.", _GPU),
    Metric("hw_energy_joules", "counter", "Energy used since the driver was loaded.", _GPU),
    Metric("hw_temperature_celsius", "gauge", "Temperature of the GPU, or of its memory.", (*_GPU, "hw_sensor_location")),
    Metric("hw_temperature_limit_celsius", "gauge", "Where it slows down, and where it turns off.", (*_GPU, "hw_limit_type")),
    Metric("hw_errors", "counter", "ECC errors since the driver was loaded.", (*_GPU, "error_type")),
    Metric("gputop_gpu_activity_ratio", "gauge", "Share of time that a part of the GPU is active, 0 to 1.", (*_GPU, "part")),
    Metric("gputop_gpu_clock_hertz", "gauge", "Clock of the SMs or of the memory.", (*_GPU, "clock")),
    Metric("gputop_gpu_clock_limit_hertz", "gauge", "The highest clock.", (*_GPU, "clock")),
    Metric("gputop_gpu_power_limit_watts", "gauge", "The power limit in force.", _GPU),
    Metric("gputop_gpu_fan_ratio", "gauge", "Fan speed, as a share of the highest.", _GPU),
    Metric("gputop_gpu_pcie_bytes_per_second", "gauge", "Throughput of the PCIe link.", (*_GPU, "direction")),
    Metric("gputop_gpu_nvlink_bytes_per_second", "gauge", "Throughput of all NVLinks.", (*_GPU, "direction")),
    Metric("gputop_gpu_throttled", "gauge", "1 for each reason that throttles the clocks now.", (*_GPU, "reason")),
    Metric("gputop_gpu_throttle_seconds", "counter", "For how long a reason has throttled the clocks.", (*_GPU, "reason")),
    Metric("gputop_run_info", "gauge", "A live run.", ("run_id", "run", "project", "tracked")),
    Metric("gputop_run_state", "gauge", "1 for the state of a live run.", ("run_id", "state")),
    Metric("gputop_run_ranks", "gauge", "Ranks of a live run on this machine.", ("run_id",)),
    Metric("gputop_run_step", "gauge", "The last step that all live ranks have finished.", ("run_id",)),
    Metric("gputop_run_loss", "gauge", "The training loss, a mean over the ranks.", ("run_id", "metric")),
    Metric("gputop_rank_step", "gauge", "The newest step of a rank.", _RANK),
    Metric("gputop_rank_state", "gauge", "1 for the state of a rank.", (*_RANK, "state")),
    Metric("gputop_rank_last_record_timestamp_seconds", "gauge", "When a rank recorded last.", _RANK),
    Metric("gputop_process_gpu_memory_bytes", "gauge", "GPU memory of a process of a run.", (*_PROCESS, "hw_id")),
    Metric("gputop_process_sm_utilization_ratio", "gauge", "Its share of the SMs' time, 0 to 1.", (*_PROCESS, "hw_id")),
    Metric("gputop_process_cpu_cores", "gauge", "Cores that a process of a run keeps busy.", _PROCESS),
    Metric("gputop_process_memory_bytes", "gauge", "Resident memory of a process of a run.", _PROCESS),
    Metric("gputop_findings", "gauge", "What the doctor finds now.", ("rule", "severity", "confidence", "run_id")),
)
