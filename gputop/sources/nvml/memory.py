"""Memory of a GPU or a MIG instance: version 2, else version 1, else the host's if the GPU has none of its own."""

from __future__ import annotations

import ctypes
from typing import Any

from gputop.sources.host import procfs
from gputop.sources.nvml.calls import MEMORY_V2, Asker, MemoryV1, MemoryV2

_READING = "memory_used_bytes"
_V2, _V1 = "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"


class MemoryReader:
    """Reads memory into ``Device``'s fields."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._v2 = MemoryV2()
        self._v2.version = MEMORY_V2
        self._v1 = MemoryV1()
        self._zero = False

    def read(self) -> dict[str, Any]:
        """Return total, used, reserved (only in version 2) and the version; None means unknown.

        Raises:
            DeviceGoneError: the device is lost or needs a reset.
        """
        total = used = reserved = version = None
        if self._asker.ask(_READING, _V2, ctypes.byref(self._v2)):
            total, used, reserved, version = self._v2.total, self._v2.used, self._v2.reserved, "v2"
        elif self._asker.never(_READING, _V2) and self._asker.ask(_READING, _V1, ctypes.byref(self._v1)):
            total, used, version = self._v1.total, self._v1.used, "v1"
        self._zero = total == 0
        sane = bool(total) and used is not None and total is not None and used <= total
        return {
            "memory_total_bytes": total or None,
            "memory_used_bytes": used if sane else None,
            "memory_reserved_bytes": reserved if sane else None,
            "memory_version": version if total else None,
        }

    @property
    def absent(self) -> bool:
        """True if, according to its last answer, the device has no memory of its own."""
        return self._zero or (self._asker.never(_READING, _V2) and self._asker.never(_READING, _V1))


def host_memory() -> dict[str, Any]:
    """Return the machine's memory under the same names; used is what is not available to a new program."""
    sizes = procfs.read_meminfo()
    total, available = sizes.get("MemTotal"), sizes.get("MemAvailable")
    return {
        "memory_total_bytes": total,
        "memory_used_bytes": None if total is None or available is None else total - available,
        "memory_reserved_bytes": None,
        "memory_version": "host" if total else None,
    }
