"""The processes on one device: compute, graphics and MPS lists merged by PID, with each process's share of the SMs."""

from __future__ import annotations

import ctypes
import time
from typing import Any

from gputop.snapshot import DeviceUse
from gputop.sources.nvml.calls import (
    INSUFFICIENT_SIZE,
    NOT_FOUND,
    PROCESS_SAMPLES_NEW_V1,
    Asker,
    ProcessInfo,
    ProcessInfoV1,
    ProcessSample,
    ProcessSampleNew,
    ProcessSamplesNew,
)

_UNKNOWN_MEMORY = 2**64 - 1
"""NVML_VALUE_NOT_AVAILABLE."""
_LISTS = {
    "C": "nvmlDeviceGetComputeRunningProcesses",
    "G": "nvmlDeviceGetGraphicsRunningProcesses",
    "M": "nvmlDeviceGetMPSComputeRunningProcesses",
}
_OLD_SAMPLES = "nvmlDeviceGetProcessUtilization"
_NEW_SAMPLES = "nvmlDeviceGetProcessesUtilizationInfo"
BLACKWELL = 10
"""Compute capability from which the old utilization call finds no process (nvtop and nvitop issues)."""
SAMPLES_WINDOW_US = 2_000_000
"""How far back to ask for samples of utilization: as long as the interval in which process lists are read."""


class ProcessReader:
    """Reads one device's process lists; keeps the buffers, and enlarges them when a list no longer fits."""

    def __init__(self, asker: Asker, capability: int | None = None, samples: bool = True) -> None:
        self._asker = asker
        self._suffix, self._layout = _list_version(asker)
        self._found: dict[str, dict[int, int | None]] = {}
        self._sm: dict[int, float] | None = None
        self._uses: dict[int, DeviceUse] | None = None
        self._list = (self._layout * 64)()
        order = (_NEW_SAMPLES, _OLD_SAMPLES) if (capability or 0) >= BLACKWELL else (_OLD_SAMPLES, _NEW_SAMPLES)
        self._sample_calls = order if samples else ()
        self._old = (ProcessSample * 128)()
        self._new = (ProcessSampleNew * 128)()

    @property
    def unsupported(self) -> bool:
        """True if this device has no process list."""
        return self._asker.never("processes", _LISTS["C"] + self._suffix)

    @property
    def refused(self) -> bool:
        """True if this user may not see the list."""
        return "processes" in self._asker.denied

    def read(self, memory_total: int | None, everything: bool) -> None:
        """Read the lists and the utilization.

        Graphics and MPS lists that were empty are reread only with ``everything``: the lists are the most expensive calls of
        all, and a CUDA process is in the compute list anyway.

        Raises:
            DeviceGoneError: the device is lost or needs a reset.
        """
        self._uses = None
        for kind in _LISTS:
            if kind == "C" or everything or self._found.get(kind):
                self._found[kind] = self._read_list(kind, memory_total)
        if any(self._found.values()):
            self._sm = self._read_samples()

    def uses(self, device_uuid: str) -> dict[int, DeviceUse]:
        """Return each PID's use of the device, as last read; the caller must not change it."""
        if self._uses is None:
            self._uses = self._merged(device_uuid)
        return self._uses

    def _merged(self, device_uuid: str) -> dict[int, DeviceUse]:
        merged: dict[int, tuple[int | None, str]] = {}
        for kind, processes in self._found.items():
            for pid, memory in processes.items():
                before, kinds = merged.get(pid, (None, ""))
                # The lists overlap (an MPS client is in two) and report the same memory.
                most = memory if before is None else before if memory is None else max(before, memory)
                merged[pid] = (most, kinds + kind)
        return {
            pid: DeviceUse(device_uuid, memory, None if self._sm is None else self._sm.get(pid, 0.0), kinds)
            for pid, (memory, kinds) in merged.items()
        }

    def _read_list(self, kind: str, memory_total: int | None) -> dict[int, int | None]:
        function = _LISTS[kind] + self._suffix
        count = ctypes.c_uint(0)
        for _ in range(3):
            count.value = len(self._list)
            if self._asker.never("processes", function):
                return {}
            code = self._asker.calls(function, self._asker.handle, ctypes.byref(count), self._list)
            if code != INSUFFICIENT_SIZE:
                break
            # Processes can start between two calls, so request more entries than reported.
            self._list = (self._layout * (count.value * 2 + 8))()
        if not self._asker.judge(("processes", function), code):
            return {}
        processes: dict[int, int | None] = {}
        for entry in self._list[: min(count.value, len(self._list))]:
            memory: int | None = entry.usedGpuMemory
            if memory == _UNKNOWN_MEMORY or (memory_total and memory is not None and memory > memory_total):
                memory = None
            if entry.pid > 0:
                processes[entry.pid] = memory
        return processes

    def _read_samples(self) -> dict[int, float] | None:
        for function in self._sample_calls:
            if self._asker.never("sm_utilization", function):
                continue
            last_seen = int(time.time() * 1e6) - SAMPLES_WINDOW_US
            code, samples = self._ask_old(last_seen) if function == _OLD_SAMPLES else self._ask_new(last_seen)
            if code == NOT_FOUND:
                return {}  # no process has used the SMs since then
            if self._asker.judge(("sm_utilization", function), code):
                return self._newest(samples)
            if not self._asker.never("sm_utilization", function):
                return None
        return None

    def _ask_old(self, last_seen: int) -> tuple[int, Any]:
        count = ctypes.c_uint(0)
        code = INSUFFICIENT_SIZE
        for _ in range(3):
            count.value = len(self._old)
            code = self._asker.calls(
                _OLD_SAMPLES, self._asker.handle, self._old, ctypes.byref(count), ctypes.c_ulonglong(last_seen)
            )
            if code != INSUFFICIENT_SIZE:
                break
            self._old = (ProcessSample * (count.value * 2 + 8))()
        return code, self._old[: min(count.value, len(self._old))]

    def _ask_new(self, last_seen: int) -> tuple[int, Any]:
        info = ProcessSamplesNew()
        info.version = PROCESS_SAMPLES_NEW_V1
        info.lastSeenTimeStamp = last_seen
        code = INSUFFICIENT_SIZE
        for _ in range(3):
            info.processSamplesCount = len(self._new)
            info.procUtilArray = self._new
            code = self._asker.calls(_NEW_SAMPLES, self._asker.handle, ctypes.byref(info))
            if code != INSUFFICIENT_SIZE:
                break
            self._new = (ProcessSampleNew * (info.processSamplesCount * 2 + 8))()
        return code, self._new[: min(info.processSamplesCount, len(self._new))]

    def _newest(self, samples: Any) -> dict[int, float]:
        newest: dict[int, tuple[int, float]] = {}
        for sample in samples:
            pid, at, sm = sample.pid, sample.timeStamp, sample.smUtil
            # Ended processes leave behind samples with values far above 100.
            if pid > 0 and sm <= 100 and (pid not in newest or at > newest[pid][0]):
                newest[pid] = (at, float(sm))
        return {pid: sm for pid, (_, sm) in newest.items()}


def _list_version(asker: Asker) -> tuple[str, Any]:
    """Return the suffix and the struct of the installed library's process lists.

    The first R535 drivers added a member to the v3 list, and later drivers removed it. Those drivers have the
    confidential-computing calls but not the detail list that replaced the member. Their v2 list is sound.
    """
    calls = asker.calls
    short_lived = calls.has("nvmlDeviceGetConfComputeMemSizeInfo") and not calls.has("nvmlDeviceGetRunningProcessDetailList")
    if calls.has(_LISTS["C"] + "_v3") and not short_lived:
        return "_v3", ProcessInfo
    if calls.has(_LISTS["C"] + "_v2"):
        return "_v2", ProcessInfo
    return "", ProcessInfoV1
