"""Reads where in the machine a GPU is, once, and how many of its NVLinks are up, rarely.

Asks NVML first; if it has no answer (older drivers, some containers), reads PCI's own files in /sys.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from typing import Any

from gputop.sources.host import procfs
from gputop.sources.host.procfs_activity import parse_cpu_list
from gputop.sources.nvml.calls import Asker
from gputop.sources.nvml.counters import Field, FieldBatch

PCI_DEVICES = "/sys/bus/pci/devices"
_NVIDIA = "0x10de"
"""NVIDIA's PCI vendor id."""
_WORDS = 32
_BITS = 8 * ctypes.sizeof(ctypes.c_ulong)
"""NVML's masks are arrays of unsigned long; 32 words hold 2048 cores."""
_WITHIN_NODE = 0
"""NVML_AFFINITY_SCOPE_NODE: the NUMA node, not the socket."""
CALLS_EVERY = 6
"""Without field 165 (drivers before R520), each link costs a call, so only every sixth reading makes these calls."""


def read_place(asker: Asker, pci_bus_id: str | None) -> dict[str, Any]:
    """Return ``numa_node`` and ``cpu_affinity`` of the device: the nearest memory and cores.

    nvmlDeviceGetNumaNodeId would return something else: the node of the GPU's own memory (Grace Hopper).

    Raises:
        DeviceGoneError: the device is lost or needs a reset.
    """
    cores = _mask(asker, "cpu_affinity", "nvmlDeviceGetCpuAffinity")
    nodes = _mask(asker, "numa_node", "nvmlDeviceGetMemoryAffinity", ctypes.c_uint(_WITHIN_NODE))
    node = nodes[0] if nodes else None
    if not cores or node is None:
        found = pci_place(pci_bus_id)
        cores, node = cores or found[0], found[1] if node is None else node
    return {"cpu_affinity": cores, "numa_node": node}


def _mask(asker: Asker, reading: str, function: str, *scope: Any) -> tuple[int, ...]:
    words = (ctypes.c_ulong * _WORDS)()
    if not asker.ask(reading, function, ctypes.c_uint(_WORDS), words, *scope):
        return ()
    return tuple(_BITS * place + bit for place, word in enumerate(words) if word for bit in range(_BITS) if word >> bit & 1)


def pci_place(pci_bus_id: str | None, devices: str = PCI_DEVICES) -> tuple[tuple[int, ...], int | None]:
    """Return the cores and the NUMA node near an NVIDIA PCI device; nothing if the kernel does not know either.

    NVML writes the domain with eight digits ("00000000:C1:00.0"), the kernel with four ("0000:c1:00.0").
    """
    domain, _, rest = (pci_bus_id or "").lower().partition(":")
    folder = os.path.join(devices, f"{domain[-4:]}:{rest}")
    if not rest or _read(folder, "vendor") != _NVIDIA:
        return (), None
    node = _read(folder, "numa_node")
    return parse_cpu_list(_read(folder, "local_cpulist")), int(node) if node.isdigit() else None  # -1: there is one node


def _read(folder: str, name: str) -> str:
    try:
        return procfs.read_bytes(os.path.join(folder, name)).decode(errors="replace").strip()
    except OSError:
        return ""


LINK_STATES = tuple(Field(f"nvlink_{link}", 165, link) for link in range(18))
"""Whether each link is up, as fields: they belong to a batch that is read anyway, so they cost no extra call."""


class NvLinks:
    """Counts the active NVLinks of one device."""

    def __init__(self, asker: Asker) -> None:
        self._asker = asker
        self._number = ctypes.c_uint()
        self._active: int | None = None
        self._reads = 0

    def count(self, batch: FieldBatch, found: Mapping[str, float]) -> int | None:
        """Return how many links are up, according to ``batch``; ``None`` without links, or if the driver does not report them.

        Raises:
            DeviceGoneError: the device is lost or needs a reset.
        """
        states = [found[field.reading] for field in LINK_STATES if field.reading in found]
        if states:
            self._active = sum(state == 1 for state in states)
        elif not any(batch.has(field.reading) for field in LINK_STATES):
            if self._reads % CALLS_EVERY == 0:
                self._active = self._count_by_calls()
            self._reads += 1
        return self._active

    def _count_by_calls(self) -> int | None:
        """Query link by link, up to the first that the device lacks."""
        active = None
        for field in LINK_STATES:
            number = ctypes.c_uint(field.scope)
            if not self._asker.ask(field.reading, "nvmlDeviceGetNvLinkState", number, ctypes.byref(self._number)):
                break
            active = (active or 0) + (self._number.value == 1)
        return active
