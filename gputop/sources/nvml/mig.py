"""The MIG instances of a GPU, each as a device: memory, processes, and activity if GPM provides it."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from gputop.snapshot import Device
from gputop.sources.nvml.calls import NOT_FOUND, SUCCESS, Asker, Handle, MigAttributes, new_handle
from gputop.sources.nvml.counters import Gpm
from gputop.sources.nvml.memory import MemoryReader
from gputop.sources.nvml.processes import ProcessReader

_ACTIVITIES = ("sm_activity_percent", "sm_occupancy_percent", "tensor_activity_percent", "dram_activity_percent")


class Parent(Protocol):
    """What an instance needs from the GPU that contains it."""

    asker: Asker
    handle: Handle
    index: int
    uuid: str
    values: dict[str, Any]


class MigReader:
    """A MIG instance of ``parent``. NVML has no utilization for it; GPM's share of busy time replaces it if available."""

    def __init__(self, parent: Parent, position: int, handle: Handle, uuid: str, gpm: bool) -> None:
        self.uuid = uuid
        self.asker = Asker(parent.asker.calls, handle)
        # NVML has no process utilization for instances.
        self.processes = ProcessReader(self.asker, samples=False)
        self._parent = parent
        self._values: dict[str, Any] = {}
        self._memory = MemoryReader(self.asker)
        name = parent.asker.calls.text("nvmlDeviceGetName", handle)[1]
        self._name = name or parent.values.get("name")
        self._label = f"{parent.index}:{position} {self._profile(name)}".strip()
        self._gpm = self._open_gpm() if gpm else None

    def _profile(self, name: str | None) -> str:
        if name and " MIG " in name:
            return name.rpartition(" MIG ")[2]
        found = MigAttributes()
        if not self.asker.ask("mig_label", "nvmlDeviceGetAttributes_v2", ctypes.byref(found)):
            return ""
        slices, gpu_slices = found.computeInstanceSliceCount, found.gpuInstanceSliceCount
        prefix = f"{slices}c." if slices != gpu_slices else ""
        return f"{prefix}{gpu_slices}g.{round(found.memorySizeMB / 1024)}gb"

    def _open_gpm(self) -> Gpm | None:
        instance = ctypes.c_uint()
        if not self.asker.ask("gpu_instance", "nvmlDeviceGetGpuInstanceId", ctypes.byref(instance)):
            return None
        calls, parent = self.asker.calls, self._parent.handle
        return Gpm(self.asker, lambda sample: calls("nvmlGpmMigSampleGet", parent, instance, sample))

    def read_fast(self, now: float) -> None:
        """Read memory and activity.

        Raises:
            DeviceGoneError: the GPU is lost or needs a reset.
        """
        self._values.update(self._memory.read())
        activity = self._gpm.read(now) if self._gpm else {}
        self._values["utilization_percent"] = activity.get("graphics_activity_percent")
        for reading in _ACTIVITIES:
            self._values[reading] = activity.get(reading)

    def read_processes(self, everything: bool) -> None:
        """Read the instance's process lists."""
        self.processes.read(self._values.get("memory_total_bytes"), everything)

    def device(self) -> Device:
        """Return the newest values as a record."""
        return Device(
            index=self._parent.index,
            uuid=self.uuid,
            name=self._name,
            kind="mig",
            parent_uuid=self._parent.uuid,
            mig_label=self._label,
            pci_bus_id=self._parent.values.get("pci_bus_id"),
            numa_node=self._parent.values.get("numa_node"),
            cpu_affinity=self._parent.values.get("cpu_affinity", ()),
            denied=tuple(sorted(self.asker.denied & {"memory_used_bytes", *_ACTIVITIES})),
            **self._values,
        )

    def close(self) -> None:
        """Free the GPM samples; call only from the reading thread."""
        if self._gpm:
            self._gpm.close()


def instances(parent: Parent, known: Sequence[MigReader], gpm: bool) -> list[MigReader]:
    """Return a reader per MIG instance that exists now. Remaining instances keep theirs; the others' are closed.

    Raises:
        DeviceGoneError: the GPU is lost or needs a reset.
    """
    old = {mig.uuid: mig for mig in known}
    found = []
    for position, handle in _handles(parent.asker):
        code, uuid = parent.asker.calls.text("nvmlDeviceGetUUID", handle)
        if code == SUCCESS and uuid is not None:
            mig = old.pop(uuid, None) or MigReader(parent, position, handle, uuid, gpm)
            found.append(mig)
    close_all(old.values())
    return found


def close_all(migs: Iterable[MigReader]) -> list[MigReader]:
    """Close the readers and return an empty list; call only from the reading thread."""
    for mig in migs:
        mig.close()
    return []


def _handles(asker: Asker) -> Iterator[tuple[int, Handle]]:
    for position in range(asker.number("mig_count", "nvmlDeviceGetMaxMigDeviceCount") or 0):
        handle = new_handle()
        place = ctypes.c_uint(position)
        code = asker.calls("nvmlDeviceGetMigDeviceHandleByIndex", asker.handle, place, ctypes.byref(handle))
        if code == SUCCESS:
            yield position, handle
        elif code != NOT_FOUND:
            return
