"""The names that exporters give to the readings of a GPU, and the field of ``Device`` for each. Pure tables.

The names are those of nvitop-exporter 1.7, dcgm-exporter 4, nvidia_gpu_exporter 1.5, all-smi 0.21 and ``gputop export``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

MIB = float(1 << 20)


@dataclass(frozen=True, slots=True)
class Reading:
    """One metric: the field of ``Device`` that it fills, the factor for its value, and a label that it must have."""

    metric: str
    field: str
    scale: float = 1.0
    label: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Exporter:
    """One exporter. ``readings``: if several fill one field, the first known one counts.

    ``uuid``, ``index`` and ``gpu_name`` are labels that identify a GPU; of each, the first one present counts. ``also`` lists
    further metrics to query: the functions in ``reading`` use their labels or values.
    """

    name: str
    uuid: tuple[str, ...]
    index: tuple[str, ...]
    gpu_name: tuple[str, ...]
    readings: tuple[Reading, ...]
    also: tuple[str, ...] = ()
    driver: tuple[str, ...] = ()
    """Labels that hold the version of the driver."""
    instance: tuple[str, ...] = ()
    """Labels of a MIG instance, whose readings are not the GPU's."""


_DCGM = Exporter(
    "dcgm-exporter",
    ("UUID",),
    ("gpu",),
    ("modelName",),
    (
        Reading("DCGM_FI_DEV_GPU_UTIL", "utilization_percent"),
        Reading("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "utilization_percent", 100.0),
        Reading("DCGM_FI_DEV_MEM_COPY_UTIL", "memory_activity_percent"),
        Reading("DCGM_FI_PROF_SM_ACTIVE", "sm_activity_percent", 100.0),
        Reading("DCGM_FI_PROF_SM_OCCUPANCY", "sm_occupancy_percent", 100.0),
        Reading("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", "tensor_activity_percent", 100.0),
        Reading("DCGM_FI_PROF_DRAM_ACTIVE", "dram_activity_percent", 100.0),
        Reading("DCGM_FI_DEV_FB_USED", "memory_used_bytes", MIB),
        Reading("DCGM_FI_DEV_FB_TOTAL", "memory_total_bytes", MIB),
        Reading("DCGM_FI_DEV_FB_RESERVED", "memory_reserved_bytes", MIB),
        Reading("DCGM_FI_DEV_POWER_USAGE", "power_w"),
        Reading("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "power_limit_w"),
        Reading("DCGM_FI_DEV_POWER_MGMT_LIMIT", "power_limit_w"),
        Reading("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "energy_j", 1e-3),
        Reading("DCGM_FI_DEV_GPU_TEMP", "temperature_c"),
        Reading("DCGM_FI_DEV_MEMORY_TEMP", "memory_temperature_c"),
        Reading("DCGM_FI_DEV_SM_CLOCK", "sm_clock_mhz"),
        Reading("DCGM_FI_DEV_MEM_CLOCK", "memory_clock_mhz"),
        Reading("DCGM_FI_DEV_FAN_SPEED", "fan_percent"),
    ),
    also=("DCGM_FI_DEV_FB_FREE",),
    driver=("DCGM_FI_DRIVER_VERSION",),
    instance=("GPU_I_ID", "GPU_I_PROFILE"),
)
_NVITOP = Exporter(
    "nvitop-exporter",
    ("uuid",),
    ("index",),
    ("devicename",),
    (
        Reading("gpu_utilization_Percentage", "utilization_percent"),
        Reading("gpu_memory_utilization_Percentage", "memory_activity_percent"),
        Reading("gpu_memory_used_MiB", "memory_used_bytes", MIB),
        Reading("gpu_memory_total_MiB", "memory_total_bytes", MIB),
        Reading("gpu_power_usage_W", "power_w"),
        Reading("gpu_power_limit_W", "power_limit_w"),
        Reading("gpu_temperature_C", "temperature_c"),
        Reading("gpu_clock_sm_MHz", "sm_clock_mhz"),
        Reading("gpu_clock_memory_MHz", "memory_clock_mhz"),
        Reading("gpu_fan_speed_Percentage", "fan_percent"),
        Reading("gpu_pcie_rx_throughput_MiBps", "pcie_rx_bytes_per_s", MIB),
        Reading("gpu_pcie_tx_throughput_MiBps", "pcie_tx_bytes_per_s", MIB),
    ),
)
_NVIDIA_GPU_EXPORTER = Exporter(
    "nvidia_gpu_exporter",
    ("uuid",),
    ("index",),
    ("name",),
    (
        Reading("nvidia_smi_utilization_gpu_ratio", "utilization_percent", 100.0),
        Reading("nvidia_smi_utilization_memory_ratio", "memory_activity_percent", 100.0),
        Reading("nvidia_smi_memory_used_bytes", "memory_used_bytes"),
        Reading("nvidia_smi_memory_total_bytes", "memory_total_bytes"),
        Reading("nvidia_smi_memory_reserved_bytes", "memory_reserved_bytes"),
        Reading("nvidia_smi_power_draw_watts", "power_w"),
        Reading("nvidia_smi_enforced_power_limit_watts", "power_limit_w"),
        Reading("nvidia_smi_power_limit_watts", "power_limit_w"),
        Reading("nvidia_smi_temperature_gpu", "temperature_c"),
        Reading("nvidia_smi_temperature_memory", "memory_temperature_c"),
        Reading("nvidia_smi_clocks_current_sm_clock_hz", "sm_clock_mhz", 1e-6),
        Reading("nvidia_smi_clocks_current_memory_clock_hz", "memory_clock_mhz", 1e-6),
        Reading("nvidia_smi_fan_speed_ratio", "fan_percent", 100.0),
        Reading("nvidia_smi_pstate", "performance_state"),
        Reading("nvidia_smi_index", "index"),
    ),
    also=("nvidia_smi_gpu_info",),
    driver=("driver_version",),
)
_ALL_SMI = Exporter(
    "all-smi",
    ("uuid", "gpu_uuid"),
    ("index", "gpu_index"),
    ("gpu", "gpu_name"),
    (
        Reading("all_smi_gpu_utilization", "utilization_percent"),
        Reading("all_smi_gpu_memory_used_bytes", "memory_used_bytes"),
        Reading("all_smi_gpu_memory_total_bytes", "memory_total_bytes"),
        Reading("all_smi_gpu_power_consumption_watts", "power_w"),
        Reading("all_smi_gpu_temperature_celsius", "temperature_c"),
        Reading("all_smi_gpu_performance_state", "performance_state"),
        Reading("all_smi_gpu_pcie_gen_current", "pcie_generation"),
        Reading("all_smi_gpu_pcie_width_current", "pcie_width"),
    ),
)
_GPUTOP = Exporter(
    "gputop export",
    ("hw_id",),
    ("gpu",),
    ("hw_name",),
    (
        Reading("hw_gpu_utilization_ratio", "utilization_percent", 100.0, ("hw_gpu_task", "general")),
        Reading("hw_gpu_memory_usage_bytes", "memory_used_bytes"),
        Reading("hw_gpu_memory_limit_bytes", "memory_total_bytes"),
        Reading("hw_power_watts", "power_w"),
        Reading("gputop_gpu_power_limit_watts", "power_limit_w"),
        Reading("hw_temperature_celsius", "temperature_c", 1.0, ("hw_sensor_location", "gpu")),
        Reading("gputop_gpu_activity_ratio", "sm_activity_percent", 100.0, ("part", "sm")),
        Reading("gputop_gpu_activity_ratio", "tensor_activity_percent", 100.0, ("part", "tensor")),
        Reading("gputop_gpu_activity_ratio", "dram_activity_percent", 100.0, ("part", "dram")),
        Reading("gputop_gpu_clock_hertz", "sm_clock_mhz", 1e-6, ("clock", "sm")),
        Reading("gputop_gpu_clock_hertz", "memory_clock_mhz", 1e-6, ("clock", "memory")),
        Reading("gputop_gpu_fan_ratio", "fan_percent", 100.0),
        Reading("gputop_gpu_pcie_bytes_per_second", "pcie_rx_bytes_per_s", 1.0, ("direction", "receive")),
        Reading("gputop_gpu_pcie_bytes_per_second", "pcie_tx_bytes_per_s", 1.0, ("direction", "transmit")),
    ),
    also=("gputop_gpu_info",),
)
EXPORTERS = (_GPUTOP, _DCGM, _NVITOP, _NVIDIA_GPU_EXPORTER, _ALL_SMI)
"""If several of them report a GPU, the first one counts: readings of different times are not mixed."""
BY_METRIC: Mapping[str, Exporter] = {
    metric: exporter
    for exporter in EXPORTERS
    for metric in (*(reading.metric for reading in exporter.readings), *exporter.also)
}
HOST_READINGS: Mapping[str, tuple[str, float]] = {
    "host_cpu_percent_Percentage": ("cpu_percent", 1.0),
    "host_virtual_memory_total_MiB": ("memory_total_bytes", MIB),
    "host_virtual_memory_used_MiB": ("memory_used_bytes", MIB),
    "host_load_average_1m_Percentage": ("load_1m", 1.0),
}
"""nvitop-exporter's readings of the machine. The load is a plain load average: the unit in its name is wrong."""
HOST_LABELS = ("Hostname", "hostname", "exported_instance", "instance")
"""The labels that may hold a host's name. dcgm-exporter renamed its label; all-smi has an ``instance`` of its own, which
Prometheus calls ``exported_instance``."""


def matching(metrics: Mapping[str, object] | tuple[str, ...]) -> str:
    """Return the selector of metrics by their names."""
    return "{__name__=~" + quoted("|".join(map(re.escape, metrics))) + "}"


def quoted(text: str) -> str:
    """Return a string as PromQL writes it."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


ANCHORS = (
    *("hw_gpu_utilization_ratio", "hw_gpu_memory_usage_bytes", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED"),
    *("DCGM_FI_DEV_GPU_TEMP", "gpu_utilization_Percentage", "gpu_memory_used_MiB", "nvidia_smi_utilization_gpu_ratio"),
    *("nvidia_smi_memory_used_bytes", "all_smi_gpu_utilization", "all_smi_gpu_memory_used_bytes"),
)
"""One or two metrics that each exporter always has: they show that it exists, and how old its samples are."""
KNOWN_FOR = "1h"
"""A target that has reported a GPU within this time is a host, even when it is down."""
VALUES = matching({**BY_METRIC, **HOST_READINGS})
"""All readings."""
_BY_HOST = f"by (job, {', '.join(sorted(HOST_LABELS))})"
"""One target may carry several hosts, as a Prometheus does whose series another one scrapes (``/federate``)."""
SAMPLED = " or ".join(f"max {_BY_HOST} (timestamp({metric}))" for metric in ANCHORS)
"""When each host's samples were taken: the time next to a value is that of the query."""
KNOWN = f"group {_BY_HOST} (last_over_time({matching(ANCHORS)}[{KNOWN_FOR}]))"
"""The targets that report GPUs, and the names of their hosts."""


def scrapes(jobs: tuple[str, ...]) -> str:
    """Return the query for whether the targets of these jobs answered, and when."""
    return "up{job=~" + quoted("|".join(map(re.escape, jobs))) + "}[5m]"
