"""Whose memory is in use on each device: the chosen run's, other processes', the driver's, or of no listed owner. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gputop.snapshot import Device, Snapshot


DRIVER_BYTES_MAX = 2**30
"""The driver and its contexts take less than this of a GPU; more belongs to some process."""
EQUAL_BYTES = 128 * 2**20
"""What the driver takes differs by less than this between the GPUs of a machine."""
SMALL_BYTES = 512 * 2**20
"""Memory that no listed process holds is not worth a row below this."""


@dataclass(frozen=True, slots=True)
class MemorySplit:
    """The parts of the memory in use, in bytes; None if a part cannot be separated from the others."""

    run: int | None
    other: int | None
    driver: int | None
    unlisted: int | None


def memory_splits(snapshot: Snapshot, run_id: str | None) -> dict[str, MemorySplit]:
    """Return the split of each device whose memory in use is known, by UUID.

    What no listed process holds is the driver's if it is small, or about as much as on the GPU with the least of it. It is
    unknown if a process hides its share or the driver hides processes, on virtual devices, and with unified memory.
    """
    held: dict[tuple[str, bool], int] = {}
    hidden: set[str] = set()
    for process in snapshot.processes:
        is_of_run = run_id is not None and process.run_id == run_id
        for use in process.devices:
            used = use.memory_used_bytes
            if used is None:
                hidden.add(use.device_uuid)
            else:
                key = use.device_uuid, is_of_run
                held[key] = held.get(key, 0) + used
    blind = any(note.code == "no_permission" for note in snapshot.notes)
    parents = {device.parent_uuid for device in snapshot.devices}
    rests: dict[str, int] = {}
    for device in snapshot.devices:
        used = _used(device)
        if used is None or blind or device.uuid in hidden or device.uuid in parents or _is_shared(device):
            continue
        rests[device.uuid] = max(0, used - held.get((device.uuid, True), 0) - held.get((device.uuid, False), 0))
    driver = _drivers(rests.values())
    splits = {}
    for device in snapshot.devices:
        if device.memory_used_bytes is None:
            continue
        rest = rests.get(device.uuid)
        listed = rest is None or rest <= max(SMALL_BYTES, driver)
        splits[device.uuid] = MemorySplit(
            run=held.get((device.uuid, True), 0),
            other=None if device.uuid in hidden or blind else held.get((device.uuid, False), 0),
            driver=None if rest is None else rest if listed else 0,
            unlisted=None if rest is None else 0 if listed else rest,
        )
    return splits


def _used(device: Device) -> int | None:
    used = device.memory_used_bytes
    if used is None or device.state != "ok":
        return None
    return used - (device.memory_reserved_bytes or 0) if device.memory_version == "v1" else used


def _is_shared(device: Device) -> bool:
    """Whether the memory belongs to the host, so that its use says nothing about GPU processes."""
    return device.kind == "virtual" or device.memory_version == "host"


def _drivers(rests: Iterable[int]) -> int:
    """Return up to how much memory without a listed owner counts as the driver's."""
    least = min(rests, default=0)
    return least + EQUAL_BYTES if least <= DRIVER_BYTES_MAX else 0
