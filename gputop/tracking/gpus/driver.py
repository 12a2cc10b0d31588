"""Reads one GPU from NVIDIA's library, inside a training process: only with ctypes, and never on one of the training's threads.

A ctypes call releases the interpreter lock, so a driver that hangs blocks only the calling thread.
"""

from __future__ import annotations

import ctypes
import time
from typing import Any

from gputop.tracking.gpus.record import Reading

_LIBRARY = "libnvidia-ml.so.1"
_MILLI = 1e-3
"""Watts in a milliwatt, the driver's unit of power."""


class _Utilization(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Memory(ctypes.Structure):
    """nvmlMemory_v2_t, which counts the memory reserved by the driver separately."""

    _fields_ = (
        ("version", ctypes.c_uint),
        ("total", ctypes.c_ulonglong),
        ("reserved", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


_MEMORY_VERSION = 2 << 24 | ctypes.sizeof(_Memory)


class Driver:
    """The library, opened."""

    def __init__(self) -> None:
        """Open and start the library.

        Raises:
            OSError: there is none, or it cannot be started.
        """
        self._library: Any = ctypes.CDLL(_LIBRARY)
        if not self._ask("nvmlInit_v2"):
            raise OSError(f"{_LIBRARY} cannot be started")

    def read(self, uuid: str) -> Reading | None:
        """Return the current readings of a GPU; None if the driver does not know it."""
        handle, index = ctypes.c_void_p(), ctypes.c_uint()
        if not self._ask("nvmlDeviceGetHandleByUUID", ctypes.c_char_p(uuid.encode()), ctypes.byref(handle)):
            return None
        use, memory, power = _Utilization(), _Memory(_MEMORY_VERSION), ctypes.c_uint()
        asked: dict[str, Any] = {
            "nvmlDeviceGetIndex": index,
            "nvmlDeviceGetUtilizationRates": use,
            "nvmlDeviceGetMemoryInfo_v2": memory,
            "nvmlDeviceGetPowerUsage": power,
        }
        known = {name: self._ask(name, handle, ctypes.byref(value)) for name, value in asked.items()}
        return Reading(
            uuid,
            index.value if known["nvmlDeviceGetIndex"] else None,
            time.time(),
            float(use.gpu) if known["nvmlDeviceGetUtilizationRates"] else None,
            int(memory.used) if known["nvmlDeviceGetMemoryInfo_v2"] else None,
            power.value * _MILLI if known["nvmlDeviceGetPowerUsage"] else None,
        )

    def _ask(self, function: str, *arguments: Any) -> bool:
        """Return whether a call answered; a function that an older driver lacks does not."""
        call = getattr(self._library, function, None)
        return call is not None and call(*arguments) == 0
