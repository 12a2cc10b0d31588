"""Machines whose driver reports only part of a GPU: a MIG instance in a container, a virtual GPU, WSL, Jetson."""

from __future__ import annotations

from tests.nvml_sim.drivers import FIELDS_SINCE
from tests.nvml_sim.machines import AMPERE, MACHINES, NO_LINKS, NO_REMAPPER, NO_THRESHOLDS, NO_UTILIZATION, scenario_of
from tests.nvml_sim.scenario import GIB, NO_PERMISSION, NOT_SUPPORTED, PROCESS_CALLS, Scenario, all_na

OF_THE_WHOLE = (
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetEnforcedPowerLimit",
    "nvmlDeviceGetPowerManagementDefaultLimit",
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetTemperatureV",
    "nvmlDeviceGetTemperatureThreshold",
    "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetMaxClockInfo",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetFanSpeed",
    "nvmlDeviceGetPerformanceState",
)
"""Functions of a whole GPU that are never called for an instance."""


def mig_only_container() -> Scenario:
    """One instance in a container, from StableSwarmUI's issue 388 and nvidia-container-toolkit's issue 842.

    The memory of the whole GPU is refused for lack of permission, its utilization is not measured; temperature and power are.
    """
    scenario = scenario_of(MACHINES["a100-80gb-mig"]).set(0, memory_denied=1)
    scenario.migs = scenario.migs[:1]
    return scenario


def mig_uuid_container() -> Scenario:
    """One instance that a container gets by UUID (NVIDIA_VISIBLE_DEVICES=MIG-…); every reading of the whole GPU is refused."""
    scenario = mig_only_container()
    scenario.migs = scenario.migs[:1]
    for function in OF_THE_WHOLE:
        scenario.error(0, function, NO_PERMISSION)
    for number in FIELDS_SINCE:
        scenario.field_error(0, number, NO_PERMISSION)
    for number in (3, 4, 74, 76, 82, 83):
        scenario.field_error(0, number, NO_PERMISSION)
    return scenario


def gb200_tray() -> Scenario:
    """Four GB200 GPUs and two Grace CPUs. A GPU's memory is a NUMA node of the machine, and still the GPU's own memory."""
    scenario = scenario_of(MACHINES["gb200"])
    for index in range(1, 4):
        scenario.gpu(index, MACHINES["gb200"].name).set(index, **MACHINES["gb200"].values)
    for index in range(4):
        scenario.near(index, "0-71" if index < 2 else "72-143", index // 2).set(index, memory_used=(index + 1) * 10 * GIB)
    return scenario


def vgpu_guest(licensed: int | None = None) -> Scenario:
    """A virtual GPU in a guest, by NVIDIA's vGPU guide: power, heat and PCIe stay with the host; processes are not listed.

    ``licensed`` is 1 with a license, 0 if it is missing or has expired, None if the driver does not say.
    """
    refused = (
        "power",
        "power_instant",
        "power_limit",
        "power_default_limit",
        "energy_base",
        "temperature",
        "memory_temperature",
    )
    scenario = Scenario().gpu(0, "GRID T4-16Q").set(0, memory_total=16 * GIB, memory_used=GIB, gpm=0, utilization=7)
    scenario.set(0, license=licensed)
    scenario.set(0, **dict.fromkeys((*refused, *NO_THRESHOLDS, *NO_LINKS, *NO_REMAPPER, "mig_mode", "events")))
    scenario.set(
        0, **dict.fromkeys(("pcie_generation", "pcie_generation_max", "pcie_width", "pcie_width_max", "pcie_counter_bits"))
    )
    for call in PROCESS_CALLS:
        scenario.error(0, call, NOT_SUPPORTED)
    return scenario


def wsl(pid: int) -> Scenario:
    """WSL 2 with an early driver: no utilization (dask.distributed's issue 5342), no memory per process (nvtop's issue 432)."""
    scenario = Scenario().on_driver("510.06", 11060).gpu(0, "NVIDIA GeForce RTX 3080")
    scenario.set(0, **AMPERE, **NO_UTILIZATION, memory_total=10 * GIB, memory_used=6 * GIB, process_utilization=None)
    return scenario.process(0, pid, None, None)


def jetson() -> Scenario:
    """A Jetson Orin with JetPack 6: the library exists and answers almost nothing (nvitop's issue 168)."""
    scenario = all_na(1)
    scenario.names[0] = "Orin (nvgpu)"
    return scenario
