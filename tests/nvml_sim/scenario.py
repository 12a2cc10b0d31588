"""What the simulated driver plays, and ready-made machines. ``scenario.c`` parses the file format.

One line per fact: ``set <key> <value>``, ``gpu <index> <reading> <wave>``, ``gpu <index> cpus 0-15,32``, ``mig …``,
``process …``, ``xid <gpu> <wall clock> <number>``, and rules for calls: ``error``, ``hang``, ``slow`` <gpu or *>
<function or *> <number>, and ``field`` <gpu or *> <field id> <code>.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.nvml_sim import drivers

GIB = 2**30
ANY = "*"

INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NO_PERMISSION = 4
DRIVER_NOT_LOADED = 9
LIBRARY_RM_MISMATCH = 18
UNKNOWN = 999

PROCESS_CALLS = (
    "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetComputeRunningProcesses_v2",
    "nvmlDeviceGetComputeRunningProcesses",
    "nvmlDeviceGetGraphicsRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v2",
    "nvmlDeviceGetGraphicsRunningProcesses",
    "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "nvmlDeviceGetMPSComputeRunningProcesses_v2",
    "nvmlDeviceGetMPSComputeRunningProcesses",
    "nvmlDeviceGetProcessUtilization",
    "nvmlDeviceGetProcessesUtilizationInfo",
)


@dataclass(frozen=True)
class Wave:
    """A value over time, which is the same in every process that plays the scenario."""

    kind: str
    numbers: tuple[float, ...] = ()

    def __str__(self) -> str:
        return " ".join([self.kind, *(f"{number:.17g}" for number in self.numbers)])


NA = Wave("na")


def const(value: float) -> Wave:
    """The same value always."""
    return Wave("const", (value,))


def sine(low: float, high: float, period_s: float, phase_s: float = 0.0) -> Wave:
    return Wave("sine", (low, high, period_s, phase_s))


def square(low: float, high: float, period_s: float, phase_s: float = 0.0) -> Wave:
    """High in the first half of each period."""
    return Wave("square", (low, high, period_s, phase_s))


def sawtooth(low: float, high: float, period_s: float, phase_s: float = 0.0) -> Wave:
    return Wave("sawtooth", (low, high, period_s, phase_s))


def noise(low: float, high: float, period_s: float = 1.0, seed: float = 0.0) -> Wave:
    """A new value between the two each period."""
    return Wave("noise", (low, high, period_s, seed))


H100: dict[str, float] = {
    "utilization": 0,
    "memory_utilization": 0,
    "memory_total": 80 * GIB,
    "memory_used": 0.5 * GIB,
    "memory_reserved": 0.5 * GIB,
    "power": 70,
    "power_limit": 700,
    "power_default_limit": 700,
    "power_fields": 1,
    "power_instant": 70,
    "energy_base": 1000,
    "temperature": 31,
    "temperature_slowdown": 87,
    "temperature_shutdown": 92,
    "memory_temperature": 40,
    "sm_clock": 345,
    "sm_clock_max": 1980,
    "memory_clock": 2619,
    "memory_clock_max": 2619,
    "performance_state": 0,
    "throttle_reasons": 1,
    "throttle_power": 0,
    "throttle_sync_boost": 0,
    "throttle_thermal_sw": 0,
    "throttle_thermal_hw": 0,
    "throttle_power_brake": 0,
    "pcie_generation": 5,
    "pcie_generation_max": 5,
    "pcie_width": 16,
    "pcie_width_max": 16,
    "pcie_rx": 0,
    "pcie_tx": 0,
    "pcie_counter_bits": 32,
    "pcie_blocking": 1,
    "nvlink_rx": 0,
    "nvlink_tx": 0,
    "nvlink_links": 18,
    "ecc_corrected": 0,
    "ecc_uncorrected": 0,
    "remapped_correctable": 0,
    "remapped_uncorrectable": 0,
    "remapped_pending": 0,
    "remapped_failed": 0,
    "compute_mode": 0,
    "mig_mode": 0,
    "persistence": 1,
    "compute_capability": 9.0,
    "gpm": 1,
    "sm_activity": 0,
    "sm_occupancy": 0,
    "tensor_activity": 0,
    "dram_activity": 0,
    "graphics_activity": 0,
    "process_utilization": 1,
    "process_memory": 1,
    "events": 1,
}
"""An idle H100 80GB SXM; it has no fan."""

H100_SLOW_US = {
    "nvmlDeviceGetCurrPcieLinkWidth": 90,
    "nvmlDeviceGetFanSpeed": 380,
    "nvmlDeviceGetMaxClockInfo": 1700,
    "nvmlDeviceGetMigMode": 230,
    "nvmlDeviceGetTemperatureThreshold": 200,
    "nvmlDeviceGetTotalEnergyConsumption": 3000,
    "nvmlGpmMetricsGet": 1740,
    "nvmlGpmSampleGet": 170,
    "field:83": 4190,
    "field:197": 160,
    "field:198": 150,
    "field:270": 640,
    "field:271": 640,
}
"""Calls that ask the GPU's own processor each time, in microseconds: medians of an H100 in a VM, with driver 580.159.04. Other
calls take 2 to 60 µs."""

BUSY: dict[str, float] = {
    "utilization": 98,
    "memory_utilization": 55,
    "memory_used": 71.2 * GIB,
    "power": 612,
    "power_instant": 612,
    "temperature": 65,
    "memory_temperature": 78,
    "sm_clock": 1980,
    "throttle_reasons": 4,
    "throttle_power": 0.2,
    "pcie_rx": 3.0e9,
    "pcie_tx": 1.0e9,
    "nvlink_rx": 40e9,
    "nvlink_tx": 41e9,
    "sm_activity": 88,
    "sm_occupancy": 47,
    "tensor_activity": 41,
    "dram_activity": 38,
    "graphics_activity": 99,
}
"""The readings that training changes."""


@dataclass
class Scenario:
    """A machine to simulate. Methods return the scenario, so that they chain; ``write`` saves it atomically."""

    driver_version: str = "580.95.05-sim"
    cuda_version: int = 13000
    init_error: int = 0
    latency_us: int = 0
    thermal_fields: int = 269
    epoch: float = field(default_factory=time.time)
    names: dict[int, str] = field(default_factory=dict)
    gpus: dict[int, dict[str, Wave]] = field(default_factory=dict)
    migs: list[str] = field(default_factory=list)
    processes: list[str] = field(default_factory=list)
    rules: list[str] = field(default_factory=list)
    cpus: dict[int, str] = field(default_factory=dict)
    xids: list[str] = field(default_factory=list)

    @staticmethod
    def uuid(gpu: int) -> str:
        return f"GPU-5f{gpu:06x}-0000-4000-8000-{gpu:012x}"

    @staticmethod
    def mig_uuid(gpu: int, mig: int) -> str:
        return f"MIG-5f{gpu:06x}-0000-5000-8000-{mig:012x}"

    def on_driver(self, version: str, cuda_version: int) -> Scenario:
        """Simulate a different driver, which knows only its own fields; ``environment(driver=version)`` selects its library."""
        self.driver_version = f"{version}-sim"
        self.cuda_version = cuda_version
        self.thermal_fields = drivers.thermal_fields(version)
        for field_id in drivers.unknown_fields(version):
            self.field_error(ANY, field_id, INVALID_ARGUMENT)
        return self

    def gpu(self, index: int, name: str = "NVIDIA H100 80GB HBM3") -> Scenario:
        """Add an idle H100."""
        self.names[index] = name
        self.gpus[index] = {key: const(value) for key, value in H100.items()}
        return self

    def set(self, index: int, **readings: Wave | float | None) -> Scenario:
        """Change readings of one GPU; None is "not supported"."""
        for key, value in readings.items():
            self.gpus[index][key] = NA if value is None else value if isinstance(value, Wave) else const(value)
        return self

    def busy(self, *indices: int) -> Scenario:
        """Let these GPUs train."""
        for index in indices:
            self.set(index, **BUSY)
        return self

    def process(
        self,
        gpu: int,
        pid: int,
        memory_bytes: float | None = 70.5 * GIB,
        sm: Wave | float | None = 97.0,
        types: str = "C",
        mig: int | None = None,
    ) -> Scenario:
        """Put a process on a GPU. ``types`` is of "C", "G", "M"; memory None is unavailable."""
        wave = NA if sm is None else sm if isinstance(sm, Wave) else const(sm)
        memory = -1 if memory_bytes is None else memory_bytes
        self.processes.append(f"process {gpu} {ANY if mig is None else mig} {pid} {types} {memory:.17g} {wave}")
        return self

    def mig(
        self, gpu: int, instances: tuple[int, int], profile: str, memory_gib: float, used_gib: float, sm: float | None
    ) -> Scenario:
        """Add a MIG instance (GPU instance, compute instance); the GPU itself then has MIG enabled."""
        gpu_instance, compute_instance = instances
        self.set(gpu, mig_mode=1)
        number = sum(line.startswith(f"mig {gpu} ") for line in self.migs)
        wave = NA if sm is None else const(sm)
        self.migs.append(
            f"mig {gpu} {gpu_instance} {compute_instance} {self.mig_uuid(gpu, number)} {profile} "
            f"{memory_gib * GIB:.17g} {used_gib * GIB:.17g} {wave}"
        )
        return self

    def near(self, gpu: int, cpus: str, node: int | None = None) -> Scenario:
        """Put a GPU near these cores ("0-15,64-79") and this NUMA node; by default the driver does not report either."""
        self.cpus[gpu] = cpus
        return self.set(gpu, numa_node=node)

    def xid(self, gpu: int, number: int, after_s: float = 0.0) -> Scenario:
        """Let the driver report an Xid error this long from now; a watcher gets earlier errors first."""
        moment = time.time() + after_s + len(self.xids) * 1e-4  # no two at the same moment
        self.xids.append(f"xid {gpu} {moment:.6f} {number}")
        return self

    def error(self, gpu: int | str, function: str, code: int) -> Scenario:
        """Answer a function's calls (or all, "*") on a GPU (or all) with an NVML error code."""
        self.rules.append(f"error {gpu} {function} {code}")
        return self

    def hang(self, gpu: int | str, function: str = ANY) -> Scenario:
        """Let calls hang until a later scenario no longer says so."""
        self.rules.append(f"hang {gpu} {function} 0")
        return self

    def slow(self, gpu: int | str, function: str, microseconds: int) -> Scenario:
        """Delay a function's calls, or ("field:83") one field of a batch."""
        self.rules.append(f"slow {gpu} {function} {microseconds}")
        return self

    def real_latencies(self) -> Scenario:
        """Let every GPU answer as slowly as a real H100: for benchmarks, and for tests of how long something takes."""
        for function, microseconds in H100_SLOW_US.items():
            self.slow(ANY, function, microseconds)
        return self

    def field_error(self, gpu: int | str, field_id: int, code: int) -> Scenario:
        """Answer one field of nvmlDeviceGetFieldValues with an error code."""
        self.rules.append(f"field {gpu} {field_id} {code}")
        return self

    def clear_rules(self) -> Scenario:
        """Forget errors, hangs and delays."""
        self.rules.clear()
        return self

    def text(self) -> str:
        """Return the scenario file's content."""
        lines = [
            f"set driver_version {self.driver_version}",
            f"set cuda_version {self.cuda_version}",
            f"set init_error {self.init_error}",
            f"set latency_us {self.latency_us}",
            f"set thermal_fields {self.thermal_fields}",
            f"set epoch {self.epoch:.6f}",
        ]
        for index, readings in self.gpus.items():
            lines.append(f"gpu {index} name {self.names[index]}")
            lines.append(f"gpu {index} uuid {self.uuid(index)}")
            lines.append(f"gpu {index} pci 00000000:{index + 1:02X}:00.0")
            lines.append(f"gpu {index} serial 16503230000{index:02d}")
            lines += [f"gpu {index} {key} {wave}" for key, wave in readings.items()]
        lines += [f"gpu {index} cpus {cpus}" for index, cpus in self.cpus.items()]
        return "\n".join([*lines, *self.migs, *self.processes, *self.xids, *self.rules]) + "\n"

    def write(self, path: Path) -> Path:
        """Save atomically: a process that plays the file never sees an incomplete one."""
        unfinished = path.with_name(f"{path.name}.{os.getpid()}.new")
        unfinished.write_text(self.text())
        unfinished.replace(path)
        return path


def h100_box(count: int = 8, busy: int | None = None, pids: tuple[int, ...] = ()) -> Scenario:
    """``count`` H100s, the first ``busy`` (all, if None) at full load; process i of ``pids`` runs on GPU i."""
    scenario = Scenario()
    for index in range(count):
        scenario.gpu(index)
    scenario.busy(*range(count if busy is None else busy))
    for index, pid in enumerate(pids):
        scenario.process(index, pid)
    return scenario


def h100_in_a_vm() -> Scenario:
    """What a real machine answered: one idle H100 80GB HBM3 passed through to a Firecracker VM, driver 580.159.04.

    Read with pynvml 13.615 in November 2026. It has no NVLink, no NUMA node and no fan, and the latencies of ``H100_SLOW_US``.
    """
    scenario = Scenario().gpu(0).set(0, memory_total=85520809984, memory_used=0, memory_reserved=503316480)
    scenario.set(0, power=70.5, temperature=35, memory_temperature=41, temperature_slowdown=89, temperature_shutdown=95)
    scenario.set(0, nvlink_rx=None, nvlink_tx=None, nvlink_links=None)
    return scenario.real_latencies()


def living_box(count: int = 8, pids: tuple[int, ...] = ()) -> Scenario:
    """A machine whose readings change as in a training run: for screens and for measuring the cost of watching."""
    scenario = h100_box(count, pids=pids)
    for index in range(count):
        scenario.set(
            index,
            utilization=noise(82, 100, 1.0, index),
            memory_used=sawtooth(60 * GIB, 72 * GIB, 30.0, index),
            power=noise(540, 690, 1.0, index + 0.5),
            temperature=sine(58, 71, 60.0, 3 * index),
            sm_activity=noise(70, 92, 1.0, index),
            tensor_activity=noise(30, 50, 1.0, index),
            pcie_rx=square(0.2e9, 6e9, 4.0, 0.3 * index),
        )
    return scenario


def a100_box(count: int = 2) -> Scenario:
    """A100s: no GPM, and PCIe counters of 32 bits that wrap faster than they are read."""
    scenario = h100_box(count)
    for index in range(count):
        scenario.names[index] = "NVIDIA A100-SXM4-80GB"
        scenario.set(index, gpm=0, compute_capability=8.0, pcie_generation=4, pcie_generation_max=4, nvlink_links=12)
    return scenario


def mig_box() -> Scenario:
    """GPU 0 is split into a 3g.40gb and a 1g.10gb instance, GPU 1 is whole."""
    scenario = h100_box(2, busy=2)
    scenario.mig(0, (2, 0), "3g.40gb", 39.5, 20.0, 77.0)
    scenario.mig(0, (9, 0), "1g.10gb", 9.75, 4.0, None)
    return scenario


def unified_memory() -> Scenario:
    """A GB10-like machine: the GPU has no memory of its own."""
    scenario = Scenario().gpu(0, "NVIDIA GB10").set(0, **BUSY)
    return scenario.set(0, memory_total=None, memory_used=None, compute_capability=12.1, gpm=0, nvlink_rx=None, nvlink_tx=None)


def all_na(count: int = 2) -> Scenario:
    """GPUs that support no reading at all."""
    scenario = h100_box(count, busy=0)
    for index in range(count):
        scenario.set(index, **dict.fromkeys(H100))
        for call in PROCESS_CALLS:
            scenario.error(index, call, NOT_SUPPORTED)
    return scenario


def no_permission(count: int = 2, pids: tuple[int, ...] = ()) -> Scenario:
    """The driver refuses the process lists and the ECC counters."""
    scenario = h100_box(count, pids=pids)
    for call in PROCESS_CALLS:
        scenario.error(ANY, call, NO_PERMISSION)
    return scenario.field_error(ANY, 3, NO_PERMISSION).field_error(ANY, 4, NO_PERMISSION)


def lost_gpu(gpu: int = 1, count: int = 4) -> Scenario:
    """One GPU has fallen off the bus. Write ``h100_box(count)`` first to lose it while running."""
    return h100_box(count).set(gpu, lost=1)


def one_hangs(gpu: int = 1, count: int = 4, function: str = ANY) -> Scenario:
    """Calls on one GPU never return."""
    return h100_box(count).hang(gpu, function)


def slow_driver(count: int = 8, milliseconds: int = 20) -> Scenario:
    """Every call takes ``milliseconds``."""
    scenario = h100_box(count)
    scenario.latency_us = milliseconds * 1000
    return scenario


def driver_mismatch() -> Scenario:
    """The library is newer than the loaded kernel module."""
    return Scenario(init_error=LIBRARY_RM_MISMATCH)


def driver_not_loaded() -> Scenario:
    """The kernel module is not loaded."""
    return Scenario(init_error=DRIVER_NOT_LOADED)
