"""A first look at the GPUs for a screen that starts: what a row shows, read by a few calls before anything else is imported.

Imports only ctypes: ``typing`` and ``json`` take longer than the reading. ``device.py`` reads the same values and many more; it
handles anything unusual.
"""

from __future__ import annotations

import ctypes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_LIBRARY = "libnvidia-ml.so.1"
_SUCCESS = 0
_MEMORY_V2 = 0x02000028
"""Version 2 of ``nvmlMemory_v2_t``, and its size, as NVML wants them: in one number."""
_CORE_SENSOR = 0
_TEXT_BYTES = 96
"""Enough for a UUID and a name (NVML_DEVICE_UUID_V2_BUFFER_SIZE, NVML_DEVICE_NAME_V2_BUFFER_SIZE) and for a version."""


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    _fields_ = (
        ("version", ctypes.c_uint),
        ("total", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


def is_simulated(driver_version: str | None) -> bool:
    """Return whether this is the simulated driver of gputop's tests: the screen must say so."""
    return (driver_version or "").endswith("-sim")


def read_first_look() -> dict[str, Any] | None:
    """Return ``driver_version``, ``simulated`` and ``devices``, whose keys are the names of ``Device``'s fields.

    Returns None if a driver or a GPU does not answer as usual: the complete reading then says what is wrong. May hang with
    the driver.
    """
    try:
        nvml = ctypes.CDLL(_LIBRARY)
        if nvml.nvmlInit_v2() != _SUCCESS:
            return None
        driver = _text(nvml.nvmlSystemGetDriverVersion)
        count = ctypes.c_uint()
        if nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) != _SUCCESS or not count.value:
            return None
        devices = [_device(nvml, index) for index in range(count.value)]
    except (OSError, AttributeError):  # no library, or an old one without these functions
        return None
    if None in devices:
        return None
    return {"driver_version": driver, "simulated": is_simulated(driver), "devices": devices}


def _device(nvml: Any, index: int) -> dict[str, Any] | None:
    handle = ctypes.c_void_p()
    if nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle)) != _SUCCESS:
        return None
    uuid = _text(nvml.nvmlDeviceGetUUID, handle)
    memory = _Memory(version=_MEMORY_V2)
    if uuid is None or nvml.nvmlDeviceGetMemoryInfo_v2(handle, ctypes.byref(memory)) != _SUCCESS or not memory.total:
        return None
    use, milliwatts, celsius = _Utilization(), ctypes.c_uint(), ctypes.c_uint()
    found: dict[str, Any] = {
        "index": index,
        "uuid": uuid,
        "name": _text(nvml.nvmlDeviceGetName, handle),
        "memory_total_bytes": memory.total,
        "memory_used_bytes": memory.used,
    }
    if nvml.nvmlDeviceGetUtilizationRates(handle, ctypes.byref(use)) == _SUCCESS:
        found["utilization_percent"] = float(use.gpu)
    if nvml.nvmlDeviceGetPowerUsage(handle, ctypes.byref(milliwatts)) == _SUCCESS:
        found["power_w"] = milliwatts.value * 1e-3
    if nvml.nvmlDeviceGetTemperature(handle, ctypes.c_uint(_CORE_SENSOR), ctypes.byref(celsius)) == _SUCCESS:
        found["temperature_c"] = float(celsius.value)
    return found


def _text(function: Any, *handle: Any) -> str | None:
    buffer = ctypes.create_string_buffer(_TEXT_BYTES)
    if function(*handle, buffer, ctypes.c_uint(_TEXT_BYTES)) != _SUCCESS:
        return None
    return buffer.value.decode(errors="replace")
