"""Picks the devices with the most free memory, for ``gputop pick`` and the launch form. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from gputop.errors import UsageError
from gputop.snapshot import Device, Snapshot
from gputop.units import bytes_text


def freest(snapshot: Snapshot, number: int, free_bytes: float = 0.0) -> tuple[Device, ...]:
    """Return the ``number`` devices with the most free memory, sorted by index.

    Only devices that work and whose memory is known are considered. Ties go to the device with the lower utilization, then to
    the lower index. A GPU in MIG mode is represented by its instances.

    Raises:
        UsageError: ``number`` is below 1, or too few devices have ``free_bytes`` of free memory.
    """
    if number < 1:
        raise UsageError(f"{number} GPUs cannot be picked.", "Ask for 1 or more.")
    usable = [
        device for device in snapshot.devices if device.state == "ok" and not device.mig_enabled and _free(device) is not None
    ]
    fitting = [device for device in usable if (_free(device) or 0) >= free_bytes]
    if len(fitting) < number:
        wish = f" with {bytes_text(free_bytes)} free" if free_bytes else ""
        raise UsageError(
            f"Only {len(fitting)} of {len(snapshot.devices)} GPUs{wish} can be used.", "Ask for fewer, or for less memory."
        )
    return tuple(sorted(ranked(fitting)[:number], key=lambda device: device.index))


def ranked(devices: Iterable[Device]) -> list[Device]:
    """Sort devices by most free memory, then lowest utilization, then index; unknown memory comes last."""
    return sorted(devices, key=lambda device: (-(_free(device) or 0), device.utilization_percent or 0.0, device.index))


def _free(device: Device) -> int | None:
    if device.memory_total_bytes is None or device.memory_used_bytes is None:
        return None
    return device.memory_total_bytes - device.memory_used_bytes
