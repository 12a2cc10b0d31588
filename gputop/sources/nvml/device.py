"""Reads one GPU, tier by tier. Keeps the newest values under ``Device``'s field names; has no thread and no clock."""

from __future__ import annotations

import ctypes
from dataclasses import fields
from typing import Any

from gputop.snapshot import Device, DeviceState, DeviceUse, Problem
from gputop.sources.nvml import problems
from gputop.sources.nvml.calls import (
    TEMPERATURE_V1,
    Asker,
    Calls,
    GpmSupport,
    Handle,
    PciInfo,
    Temperature,
    UtilizationRates,
    new_handle,
)
from gputop.sources.nvml.counters import Field, FieldBatch, Gpm
from gputop.sources.nvml.memory import MemoryReader, host_memory
from gputop.sources.nvml.mig import MigReader, close_all, instances
from gputop.sources.nvml.place import LINK_STATES, NvLinks, read_place
from gputop.sources.nvml.processes import ProcessReader
from gputop.sources.nvml.settings import is_virtual, read_license, read_settings
from gputop.sources.nvml.slowdown_fields import slowdown_fields
from gputop.sources.nvml.throughput import NVLINK_FIELDS, PCIE_FIELDS, Throughput

_DEVICE_FIELDS = frozenset(field.name for field in fields(Device))

_FAST = (
    Field("power_w", 185),  # same as nvmlDeviceGetPowerUsage, the only source before Ampere
    Field("memory_temperature_c", 82),
    Field("throttle_power_ns", 74),
    Field("throttle_sync_boost_ns", 76),
    *NVLINK_FIELDS,
)
_INSTANT_POWER = (Field("power_w", 186),)
"""For drivers that do not average power (RTX PRO 6000 with a 580 driver, in a capture by netdata)."""
_SLOW = (
    Field("power_limit_w", 190),
    Field("energy_j", 83),  # 3 ms on an H100, where the other fields take 0.01 to 0.7 ms: too slow for every interval
    Field("ecc_corrected", 3),
    Field("ecc_uncorrected", 4),
    Field("remapped_rows_correctable", 142),
    Field("remapped_rows_uncorrectable", 143),
    Field("remapped_rows_pending", 144),
    Field("remapped_rows_failed", 145),
)
_SCALE = {"power_w": 1e-3, "energy_j": 1e-3, "power_limit_w": 1e-3, "memory_temperature_c": 1.0}
"""NVML reports mW and mJ; measured values are floats."""

_THROTTLE_BITS = {  # names as in nvidia-smi's clocks_event_reasons
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
_CLOCK_SM, _CLOCK_MEMORY = 1, 2
_PSTATE_UNKNOWN = 32
"""NVML_PSTATE_UNKNOWN."""


def placeholder_uuid(index: int) -> str:
    """Return a stand-in for a UUID that the driver has not reported."""
    return f"GPU-index-{index}"


class DeviceReader:
    """One opened GPU. ``values`` holds the newest readings by ``Device``'s field names; a failed reading is None."""

    def __init__(self, index: int, handle: Handle, calls: Calls, driver_version: str | None = None) -> None:
        self.index = index
        self.handle = handle
        self.asker = Asker(calls, handle)
        self._placeholder = self.uuid = placeholder_uuid(index)
        self.values: dict[str, Any] = {}
        self.migs: list[MigReader] = []
        self._calls = calls
        self._utilization = UtilizationRates()
        self._memory = MemoryReader(self.asker)
        self._host_memory_bytes = host_memory()["memory_total_bytes"]
        self._temperature = Temperature()
        self._temperature.version = TEMPERATURE_V1
        self._fast_reads = 0
        self._licensed: bool | None = None
        """Whether a virtual GPU has a license; None if the driver does not say."""
        self._identify()
        self._gpm = self._open_gpm()
        self._fast_fields = _FAST + slowdown_fields(driver_version)
        self.fields = (*self._fast_fields, *_INSTANT_POWER, *PCIE_FIELDS, *_SLOW, LINK_STATES[0])
        """All fields that are ever requested, with the first NVLink standing for all links."""
        self._fast = FieldBatch(self.asker, self._fast_fields if self._gpm else self._fast_fields + PCIE_FIELDS)
        self._throughput = Throughput(self._fast)
        self._slow = FieldBatch(self.asker, _SLOW + LINK_STATES)
        self._instant_power = FieldBatch(self.asker, _INSTANT_POWER)
        self._links = NvLinks(self.asker)
        self.processes = ProcessReader(self.asker, self._capability())

    # -- tiers -----------------------------------------------------------------------------------------------

    def read_fast(self, now: float) -> None:
        """Read what every interval needs: utilization, memory, the field batch, GPM. ``now`` is monotonic seconds.

        Raises:
            DeviceGoneError: here and in the other tiers: the device is lost or needs a reset.
        """
        self._read_utilization()
        self._read_memory()
        batch = self._read_batch(self._fast, self._fast_fields)
        if not self._fast.has("power_w"):
            self._read_power()
        if self.values.get("memory_temperature_c") == 0:
            self.values["memory_temperature_c"] = None  # GPUs without this sensor report 0
        self._read_activity(batch, now)
        for mig in self.migs:
            mig.read_fast(now)
        self._fast_reads += 1

    def read_processes(self, everything: bool) -> None:
        """Read the process lists and process utilization."""
        if self.values.get("mig_enabled"):
            for mig in self.migs:
                mig.read_processes(everything)
        else:
            self.processes.read(self.values.get("memory_total_bytes"), everything)

    def read_state(self) -> None:
        """Read temperature, SM clock and throttle reasons."""
        celsius: float | None = None
        if self.asker.ask("temperature_c", "nvmlDeviceGetTemperatureV", ctypes.byref(self._temperature)):
            celsius = float(self._temperature.temperature)
        elif self.asker.never("temperature_c", "nvmlDeviceGetTemperatureV"):
            celsius = self.asker.number("temperature_c", "nvmlDeviceGetTemperature", ctypes.c_uint(0))
        self.values["temperature_c"] = celsius
        self._ask_number("sm_clock_mhz", "nvmlDeviceGetClockInfo", ctypes.c_uint(_CLOCK_SM))
        self.values["throttle_reasons"] = self._throttle_reasons()

    def read_slow(self) -> None:
        """Read fan, memory clock, P-state, PCIe and NVLinks, limits, energy, ECC and remapped rows."""
        if self.uuid == self._placeholder:
            self._identify()
        self._ask_number("fan_percent", "nvmlDeviceGetFanSpeed")
        self._ask_number("memory_clock_mhz", "nvmlDeviceGetClockInfo", ctypes.c_uint(_CLOCK_MEMORY))
        state = self.asker.number("performance_state", "nvmlDeviceGetPerformanceState")
        self.values["performance_state"] = None if state is None or state >= _PSTATE_UNKNOWN else state
        self.values["pcie_generation"] = self.asker.number("pcie_generation", "nvmlDeviceGetCurrPcieLinkGeneration")
        self.values["pcie_width"] = self.asker.number("pcie_width", "nvmlDeviceGetCurrPcieLinkWidth")
        found = self._read_batch(self._slow, _SLOW)
        self.values["nvlinks_active"] = self._links.count(self._slow, found)
        if not self._slow.has("power_limit_w"):
            self._ask_number("power_limit_w", "nvmlDeviceGetEnforcedPowerLimit", scale=1e-3)
        if not self._slow.has("energy_j"):
            self._ask_wide("energy_j", "nvmlDeviceGetTotalEnergyConsumption", scale=1e-3)
        for kind, name in enumerate(("ecc_corrected", "ecc_uncorrected")):
            if not self._slow.has(name):  # volatile counts since driver load, like the fields
                self._ask_wide(name, "nvmlDeviceGetTotalEccErrors", ctypes.c_uint(kind), ctypes.c_uint(0), whole=True)
        for name in ("remapped_rows_pending", "remapped_rows_failed"):
            if self.values.get(name) is not None:
                self.values[name] = bool(self.values[name])

    def read_mig(self) -> None:
        """Read the MIG layout; remaining instances keep their readers."""
        pending = ctypes.c_uint()
        enabled = ctypes.c_uint()
        if self.asker.ask("mig_enabled", "nvmlDeviceGetMigMode", ctypes.byref(enabled), ctypes.byref(pending)):
            self.values["mig_enabled"] = enabled.value == 1
            self.migs = instances(self, self.migs, gpm=self._gpm is not None) if enabled.value == 1 else close_all(self.migs)

    def read_rare(self) -> None:
        """Read what only an administrator changes: compute mode and persistence, and the license of a virtual GPU."""
        self.values.update(read_settings(self.asker))
        if self._is_virtual:
            self._licensed = read_license(self.asker)

    def read_once(self) -> None:
        """Read what never changes: thresholds, maxima, and the GPU's location."""
        self.values.update(read_place(self.asker, self.values.get("pci_bus_id")))
        self._ask_number("power_default_limit_w", "nvmlDeviceGetPowerManagementDefaultLimit", scale=1e-3)
        threshold = "nvmlDeviceGetTemperatureThreshold"
        self._ask_number("temperature_shutdown_c", threshold, ctypes.c_uint(0))
        self._ask_number("temperature_slowdown_c", threshold, ctypes.c_uint(1))
        self._ask_number("sm_clock_max_mhz", "nvmlDeviceGetMaxClockInfo", ctypes.c_uint(_CLOCK_SM))
        self._ask_number("memory_clock_max_mhz", "nvmlDeviceGetMaxClockInfo", ctypes.c_uint(_CLOCK_MEMORY))
        self.values["pcie_generation_max"] = self.asker.number("pcie_generation_max", "nvmlDeviceGetMaxPcieLinkGeneration")
        self.values["pcie_width_max"] = self.asker.number("pcie_width_max", "nvmlDeviceGetMaxPcieLinkWidth")

    @property
    def blocking_pcie_only(self) -> bool:
        """True if both GPM and the counters were tried, and neither provided a trustworthy PCIe throughput of this GPU."""
        if self._fast_reads < 2:
            return False
        return self.values.get("pcie_throughput_source") is None and not self.values.get("mig_enabled")

    # -- published values ------------------------------------------------------------------------------------

    def device(self, problem: Problem | None = None) -> Device:
        """Return the newest values as a record; if every reading currently fails, the state is "error"."""
        state: DeviceState = "ok"
        if problem is None and self.asker.failure is not None and not self.asker.answered:
            state, problem = "error", problems.failing(self.index, self.asker.failure)
        if problem is None and self.values.get("unified_memory"):
            problem = problems.unified()
        denied = tuple(sorted(self.asker.denied & _DEVICE_FIELDS))
        return Device(index=self.index, uuid=self.uuid, state=state, problem=problem, denied=denied, **self.values)

    def uses(self) -> dict[int, tuple[DeviceUse, ...]]:
        """Return each PID's use of this GPU, or of its MIG instances."""
        if not self.values.get("mig_enabled"):
            return {pid: (use,) for pid, use in self.processes.uses(self.uuid).items()}
        merged: dict[int, tuple[DeviceUse, ...]] = {}
        for mig in self.migs:
            for pid, use in mig.processes.uses(mig.uuid).items():
                merged[pid] = (*merged.get(pid, ()), use)
        return merged

    def notes(self) -> tuple[str, ...]:
        """Return what users must know about this GPU's readings, as keys of ``problems.NOTES``."""
        split = bool(self.values.get("mig_enabled"))
        readers = [mig.processes for mig in self.migs] if split else [self.processes]
        found = []
        if any(reader.refused for reader in readers):
            found.append("processes refused")
        elif readers and all(reader.unsupported for reader in readers):
            found.append("processes unsupported")
        if split and "memory_used_bytes" in self.asker.denied:
            found.append("only instances")
        if self._is_virtual:
            found.append("virtual unlicensed" if self._licensed is False else "virtual")
        return tuple(found)

    def close(self) -> None:
        """Free the GPM samples; call only from the reading thread."""
        if self._gpm:
            self._gpm.close()
        close_all(self.migs)

    # -- helpers ---------------------------------------------------------------------------------------------

    @property
    def _is_virtual(self) -> bool:
        return is_virtual(self.values.get("name"))

    def _identify(self) -> None:
        code, uuid = self._calls.text("nvmlDeviceGetUUID", self.handle)
        self.asker.judge(("uuid", "nvmlDeviceGetUUID"), code)
        self.uuid = uuid or self.uuid
        code, name = self._calls.text("nvmlDeviceGetName", self.handle)
        self.asker.judge(("name", "nvmlDeviceGetName"), code)
        self.values["name"] = name
        pci = PciInfo()
        if self.asker.ask("pci_bus_id", "nvmlDeviceGetPciInfo_v3", ctypes.byref(pci)):
            self.values["pci_bus_id"] = pci.busId.decode(errors="replace")

    def _capability(self) -> int | None:
        major, minor = ctypes.c_int(), ctypes.c_int()
        arguments = (ctypes.byref(major), ctypes.byref(minor))
        return major.value if self.asker.ask("capability", "nvmlDeviceGetCudaComputeCapability", *arguments) else None

    def _open_gpm(self) -> Gpm | None:
        support = GpmSupport()
        support.version = 1
        asked = self.asker.ask("gpm", "nvmlGpmQueryDeviceSupport", ctypes.byref(support))
        if not asked or not support.isSupportedDevice:
            return None
        return Gpm(self.asker, lambda sample: self._calls("nvmlGpmSampleGet", self.handle, sample))

    def _read_utilization(self) -> None:
        found = self._utilization
        works = self.asker.ask("utilization_percent", "nvmlDeviceGetUtilizationRates", ctypes.byref(found))
        self.values["utilization_percent"] = float(found.gpu) if works and found.gpu <= 100 else None
        self.values["memory_activity_percent"] = float(found.memory) if works and found.memory <= 100 else None

    def _read_power(self) -> None:
        """Read the power of a GPU without the field of the average."""
        self._ask_number("power_w", "nvmlDeviceGetPowerUsage", scale=1e-3)
        if self.asker.never("power_w", "nvmlDeviceGetPowerUsage"):
            self._read_batch(self._instant_power, _INSTANT_POWER)

    def _read_memory(self) -> None:
        found = self._memory.read()
        # A GPU that measures nothing at all does not count as sharing the host's memory.
        measures = self.values["utilization_percent"] is not None or self.values.get("unified_memory")
        # If a driver reports a size for such a GPU, it is exactly that of the machine's memory (a GB10 in nvtop's issues).
        hosts = found["memory_total_bytes"] is not None and found["memory_total_bytes"] == self._host_memory_bytes
        unified = bool(self._memory.absent and measures) or hosts
        self.values.update(host_memory() if unified else found)
        self.values["unified_memory"] = unified if unified or found["memory_total_bytes"] else None

    def _read_batch(self, batch: FieldBatch, asked: tuple[Field, ...]) -> dict[str, float]:
        found = batch.read()
        for field in asked:
            if field.reading in _DEVICE_FIELDS:
                value = found.get(field.reading)
                scale = _SCALE.get(field.reading)
                self.values[field.reading] = value if value is None or scale is None else value * scale
        return found

    def _read_activity(self, batch: dict[str, float], now: float) -> None:
        """Read GPM's values, and the throughput."""
        found = self._gpm.read(now) if self._gpm else {}
        for name in ("sm_activity_percent", "sm_occupancy_percent", "tensor_activity_percent", "dram_activity_percent"):
            self.values[name] = found.get(name)
        if self.values["utilization_percent"] is None and self.asker.never(
            "utilization_percent", "nvmlDeviceGetUtilizationRates"
        ):
            self.values["utilization_percent"] = found.get("graphics_activity_percent")
        link = self.values.get("pcie_generation_max"), self.values.get("pcie_width_max")
        self.values.update(self._throughput.read(batch, found, now, link))

    def _throttle_reasons(self) -> tuple[str, ...]:
        new, old = "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"
        bits = self.asker.wide_number("throttle_reasons", new)
        if bits is None and self.asker.never("throttle_reasons", new):
            bits = self.asker.wide_number("throttle_reasons", old)
        return tuple(name for bit, name in _THROTTLE_BITS.items() if bits and bits & bit)

    def _ask_number(self, reading: str, function: str, *arguments: Any, scale: float = 1.0) -> None:
        number = self.asker.number(reading, function, *arguments)
        self.values[reading] = None if number is None else number * scale

    def _ask_wide(self, reading: str, function: str, *arguments: Any, scale: float = 1.0, whole: bool = False) -> None:
        number = self.asker.wide_number(reading, function, *arguments)
        self.values[reading] = None if number is None else number if whole else number * scale


def open_device(index: int, calls: Calls) -> tuple[int, Handle]:
    """Request the handle of the GPU at ``index``; return NVML's code and the handle."""
    handle = new_handle()
    code = calls("nvmlDeviceGetHandleByIndex_v2", ctypes.c_uint(index), ctypes.byref(handle))
    return code, handle
