"""Calls NVML by name, counts the calls, and interprets their error codes. The only module that imports pynvml.

The C functions are called directly, with structs that are created once: pynvml's wrappers create new ones on every call and
first query the size of every list, which doubles the calls. The struct layouts are pynvml's.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pynvml

from gputop.sources.nvml.library import open_library

SUCCESS = 0
INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
INSUFFICIENT_SIZE = 7
TIMEOUT = 10
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15
RESET_REQUIRED = 16
VERSION_MISMATCH = 25
DEPRECATED = 26
"""Return codes of NVML (``nvmlReturn_t``)."""

PERMANENT = frozenset({NOT_SUPPORTED, FUNCTION_NOT_FOUND, VERSION_MISMATCH, DEPRECATED})
"""Errors that persist while a driver is loaded; any other error may be gone by the next call."""

Handle = Any
"""An NVML device handle; opaque."""


def _plain(struct: Any) -> Any:
    """Return pynvml's layout without its attribute hooks, which decode text and cost ten times a plain access."""
    return type(struct.__name__, (ctypes.Structure,), {"_fields_": struct._fields_})


UtilizationRates = _plain(pynvml.c_nvmlUtilization_t)
MemoryV1 = _plain(pynvml.c_nvmlMemory_t)
MemoryV2 = _plain(pynvml.c_nvmlMemory_v2_t)
MEMORY_V2 = pynvml.nvmlMemory_v2
Temperature = _plain(pynvml.c_nvmlTemperature_v1_t)
TEMPERATURE_V1 = pynvml.nvmlTemperature_v1
PciInfo = _plain(pynvml.nvmlPciInfo_t)
FieldValue = _plain(pynvml.c_nvmlFieldValue_t)
ProcessInfo = _plain(pynvml.c_nvmlProcessInfo_v2_t)
ProcessSample = _plain(pynvml.c_nvmlProcessUtilizationSample_t)
ProcessSampleNew = _plain(pynvml.c_nvmlProcessUtilizationInfo_v1_t)
PROCESS_SAMPLES_NEW_V1 = pynvml.ProcessesUtilizationInfo_v1
MigAttributes = _plain(pynvml.c_nvmlDeviceAttributes)
GpmSupport = _plain(pynvml.c_nvmlGpmSupport_t)
GpmSample = pynvml.c_nvmlGpmSample_t
GpmMetric = _plain(pynvml.c_nvmlGpmMetric_t)
Licenses = _plain(pynvml.c_nvmlGridLicensableFeatures_v4_t)
EventData = _plain(pynvml.c_nvmlEventData_t)
XID_CRITICAL_ERROR = 8
"""The event type."""


class GpmMetrics(ctypes.Structure):
    """A request for GPM metrics, as large as pynvml's: a driver may read all of it."""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("numMetrics", ctypes.c_uint),
        ("sample1", GpmSample),
        ("sample2", GpmSample),
        ("metrics", GpmMetric * pynvml.NVML_GPM_METRIC_MAX),
    )


class ProcessSamplesNew(ctypes.Structure):
    """A request to the newer function for process utilization."""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("processSamplesCount", ctypes.c_uint),
        ("lastSeenTimeStamp", ctypes.c_ulonglong),
        ("procUtilArray", ctypes.POINTER(ProcessSampleNew)),
    )


class ProcessInfoV1(ctypes.Structure):
    """An entry of the process lists of drivers before R510."""

    _fields_ = (("pid", ctypes.c_uint), ("usedGpuMemory", ctypes.c_ulonglong))


class DeviceGoneError(Exception):
    """The driver reports that the GPU is lost or needs a reset; no further reading of it can succeed."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def initialize() -> int:
    """Load the library and initialize it; return NVML's code. May hang with the driver.

    Raises:
        NoGpuError: there is no library, or it cannot be loaded.
    """
    if pynvml.nvmlLib is None:
        pynvml.nvmlLib = open_library()  # pynvml raises the same for a missing library and for a broken one
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return int(error.value)
    return SUCCESS


def new_handle() -> Handle:
    """Return an empty device handle for NVML to fill."""
    return pynvml.c_nvmlDevice_t()


def new_event_set() -> Any:
    """Return an empty event set for NVML to fill."""
    return pynvml.c_nvmlEventSet_t()


def address_of(handle: Handle) -> int | None:
    """Return a value that distinguishes handles."""
    return ctypes.cast(handle, ctypes.c_void_p).value


class Calls:
    """Calls NVML by name and counts the calls. One per thread.

    A function that the installed library lacks returns FUNCTION_NOT_FOUND and is not counted.
    """

    def __init__(self) -> None:
        self.count = 0
        self._functions: dict[str, Callable[..., int] | None] = {}

    def __call__(self, function: str, *arguments: Any) -> int:
        """Call ``function`` and return NVML's code."""
        if not self.has(function):
            return FUNCTION_NOT_FOUND
        self.count += 1
        found = self._functions[function]
        assert found is not None
        return found(*arguments)

    def has(self, function: str) -> bool:
        """Return whether the installed library has ``function``."""
        if function not in self._functions:
            self._functions[function] = getattr(pynvml.nvmlLib, function, None)
        return self._functions[function] is not None

    def text(self, function: str, *handle: Any) -> tuple[int, str | None]:
        """Call a function that fills a buffer with text."""
        buffer = ctypes.create_string_buffer(96)
        code = self(function, *handle, buffer, ctypes.c_uint(len(buffer)))
        return code, buffer.value.decode(errors="replace") if code == SUCCESS else None


class Asker:
    """Queries one device, and remembers what it will never answer.

    ``denied`` holds the readings whose last attempt was refused for lack of permission. ``failure`` is the newest code of a
    transient error and ``answered`` the number of successful readings, both since ``begin``.
    """

    def __init__(self, calls: Calls, handle: Handle) -> None:
        self.calls = calls
        self.handle = handle
        self.denied: set[str] = set()
        self.failure: int | None = None
        self.answered = 0
        self._never: set[tuple[str, str]] = set()
        self._number = ctypes.c_uint()
        self._wide = ctypes.c_ulonglong()

    def begin(self) -> None:
        """Reset the counts of answers and failures."""
        self.failure = None
        self.answered = 0

    def ask(self, reading: str, function: str, *arguments: Any) -> bool:
        """Call ``function`` with the device and ``arguments``; return whether it filled them.

        Raises:
            DeviceGoneError: the device is lost or needs a reset.
        """
        key = (reading, function)
        if key in self._never:
            return False
        return self.judge(key, self.calls(function, self.handle, *arguments))

    def number(self, reading: str, function: str, *arguments: Any) -> int | None:
        """Return the 32-bit number that ``function`` fills in after ``arguments``; None if it has no answer.

        Raises:
            DeviceGoneError: as ``ask``.
        """
        return self._number.value if self.ask(reading, function, *arguments, ctypes.byref(self._number)) else None

    def wide_number(self, reading: str, function: str, *arguments: Any) -> int | None:
        """Return the same for a number of 64 bits."""
        return self._wide.value if self.ask(reading, function, *arguments, ctypes.byref(self._wide)) else None

    def never(self, reading: str, function: str) -> bool:
        """Return whether ``function`` is known never to provide ``reading`` on this device."""
        return (reading, function) in self._never

    def judge(self, key: tuple[str, str], code: int) -> bool:
        """Record the result of a reading (and its function or field); return whether it succeeded.

        Raises:
            DeviceGoneError: the device is lost or needs a reset.
        """
        if code == SUCCESS:
            self.answered += 1
            self.denied.discard(key[0])
            return True
        if code in (GPU_IS_LOST, RESET_REQUIRED):
            raise DeviceGoneError(code)
        if code in PERMANENT:
            self._never.add(key)
        elif code == NO_PERMISSION:
            self.denied.add(key[0])
        else:
            self.failure = code
        return False
