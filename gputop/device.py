"""The records of a machine and its GPUs. Separate from ``snapshot`` because the first picture needs nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

DeviceState = Literal["ok", "lost", "error", "stale"]
DeviceKind = Literal["gpu", "mig", "virtual"]
HostSource = Literal["nvml", "virtual", "none", "prometheus"]


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that could not be read, in words for the user.

    ``code`` is one of: no_gpu, no_driver, driver_mismatch, library_not_found, library_unusable, no_permission, gpu_lost,
    reset_required, hung, unified_memory, mig_only, vgpu, unlicensed, gpus_only, not_read, other.
    """

    code: str
    message: str
    hint: str


NO_GPU_CODES = ("library_not_found", "no_gpu")
"""Codes of a machine that may simply have no GPU; any other means a driver that should work but does not."""


@dataclass(frozen=True, slots=True)
class Host:
    """The machine. ``source`` is "nvml", "virtual", "none" or "prometheus"; ``simulated`` marks a simulated driver."""

    hostname: str
    boot_id: str | None = None
    source: HostSource = "none"
    simulated: bool = False
    driver_version: str | None = None
    cuda_version: str | None = None
    cpu_count: int | None = None
    cpu_percent: float | None = None
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    load_1m: float | None = None
    problem: Problem | None = None
    """Why this machine has no GPU or no driver; set also when virtual GPUs stand in."""
    memory_available_bytes: int | None = None
    shm_total_bytes: int | None = None
    """Size of /dev/shm, through which DataLoader workers and NCCL exchange data."""
    shm_used_bytes: int | None = None
    cpu_quota: float | None = None
    """Cores that the cgroup (of a container or a batch system) allows; None without a limit."""
    cpu_throttled_share: float | None = None
    """Share of the cgroup's scheduling periods since the previous reading that hit the quota: 0 to 1."""
    cpu_pressure_percent: float | None = None
    """Pressure stall information, "some avg10": percentage of the last 10 s in which something waited for a CPU."""
    io_pressure_percent: float | None = None
    memory_pressure_percent: float | None = None
    oom_kills: int | None = None
    """Processes killed by the kernel's OOM killer, in this cgroup if known, else since boot."""
    iommu_enabled: bool | None = None
    mps_server_pid: int | None = None
    """PID of nvidia-cuda-mps-server, which owns the contexts of its clients; None if there is none."""
    gputop_version: str | None = None
    """The version of the gputop that read this machine; None if it is older than this field."""


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU, MIG instance or virtual GPU. Identified by ``uuid``, displayed by ``index``.

    ``kind`` is "gpu", "mig" or "virtual"; ``state`` is "ok", "lost", "error" or "stale" (its readings are older than
    three intervals; ``age_s`` is their age). ``memory_version`` is "v2", "v1" (counts the driver's reserve as used)
    or "host" (unified memory: the host's own figures). Utilization in percent is NVML's share of time with at least
    one kernel running; activities come from GPM. Throttle counters are cumulative nanoseconds, energy is since driver load.
    """

    index: int
    uuid: str
    name: str | None = None
    kind: DeviceKind = "gpu"
    parent_uuid: str | None = None
    mig_label: str | None = None
    """For a MIG instance, nvidia-smi's name: instance numbers and profile, e.g. "0:3 1g.10gb"."""
    state: DeviceState = "ok"
    age_s: float | None = None
    problem: Problem | None = None
    pci_bus_id: str | None = None
    memory_total_bytes: int | None = None
    memory_used_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    memory_version: str | None = None
    utilization_percent: float | None = None
    memory_activity_percent: float | None = None
    sm_activity_percent: float | None = None
    sm_occupancy_percent: float | None = None
    tensor_activity_percent: float | None = None
    dram_activity_percent: float | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    power_default_limit_w: float | None = None
    energy_j: float | None = None
    temperature_c: float | None = None
    temperature_slowdown_c: float | None = None
    temperature_shutdown_c: float | None = None
    memory_temperature_c: float | None = None
    sm_clock_mhz: float | None = None
    sm_clock_max_mhz: float | None = None
    memory_clock_mhz: float | None = None
    memory_clock_max_mhz: float | None = None
    performance_state: int | None = None
    fan_percent: float | None = None
    throttle_reasons: tuple[str, ...] = ()
    throttle_power_ns: int | None = None
    throttle_sync_boost_ns: int | None = None
    throttle_thermal_sw_ns: int | None = None
    throttle_thermal_hw_ns: int | None = None
    throttle_power_brake_ns: int | None = None
    pcie_generation: int | None = None
    pcie_generation_max: int | None = None
    pcie_width: int | None = None
    pcie_width_max: int | None = None
    pcie_rx_bytes_per_s: float | None = None
    pcie_tx_bytes_per_s: float | None = None
    pcie_throughput_source: str | None = None
    """"gpm", "counters" or "blocking" (nvmlDeviceGetPcieThroughput, 20 ms per direction)."""
    nvlink_rx_bytes_per_s: float | None = None
    nvlink_tx_bytes_per_s: float | None = None
    ecc_corrected: int | None = None
    ecc_uncorrected: int | None = None
    remapped_rows_correctable: int | None = None
    remapped_rows_uncorrectable: int | None = None
    remapped_rows_pending: bool | None = None
    remapped_rows_failed: bool | None = None
    compute_mode: str | None = None
    mig_enabled: bool | None = None
    persistence_enabled: bool | None = None
    unified_memory: bool | None = None
    denied: tuple[str, ...] = ()
    """Names of fields that are None for lack of permission."""
    numa_node: int | None = None
    cpu_affinity: tuple[int, ...] = ()
    """The cores near this device; empty if unknown."""
    nvlinks_active: int | None = None
    xid_errors: tuple[tuple[float, int], ...] = ()
    """(wall clock, Xid) of the critical errors that the driver reported while gputop was watching; the last 16."""

    @property
    def pcie_bytes_per_s(self) -> float | None:
        """The traffic over PCIe in both directions."""
        return _both(self.pcie_rx_bytes_per_s, self.pcie_tx_bytes_per_s)

    @property
    def nvlink_bytes_per_s(self) -> float | None:
        """The traffic over NVLink in both directions."""
        return _both(self.nvlink_rx_bytes_per_s, self.nvlink_tx_bytes_per_s)


def _both(received: float | None, sent: float | None) -> float | None:
    return None if received is None or sent is None else received + sent


class FirstLook(NamedTuple):
    """The GPUs as a first look shows them: enough to draw them. The fields have the same names as in ``Snapshot``."""

    time: float
    host: Host
    devices: tuple[Device, ...]
    interval_s: float = 1.0
    sequence: int = 0
    processes: tuple[()] = ()
    runs: tuple[()] = ()
    points: tuple[()] = ()
    notes: tuple[()] = ()
    process_runs: tuple[()] = ()
