"""Which devices a process may use: CUDA_VISIBLE_DEVICES and GPUTOP_VIRTUAL_DEVICES, parsed as CUDA does. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gputop.snapshot import Device, Process

_LEADING_INTEGER = re.compile(r"\s*([+-]?\d+)")


def parse_mask(text: str) -> tuple[str, ...]:
    """Return the entries that CUDA takes from a visibility mask, in order.

    A repeated entry empties the whole list; a negative or unreadable entry ends it. A list that begins with a UUID contains
    only UUIDs; any other list contains ordinals, of which only the leading digits count ("2;3" is 2). Checked against
    ``torch.cuda._parse_visible_devices``.
    """
    for prefix in ("GPU-", "MIG-"):
        if text.startswith(prefix):
            return _take(prefix, text.split(","))
    ordinals: list[str] = []
    for entry in text.split(","):
        found = _LEADING_INTEGER.match(entry)
        ordinal = str(int(found[1])) if found else "-1"
        if ordinal in ordinals:
            return ()
        if ordinal.startswith("-"):
            break
        ordinals.append(ordinal)
    return tuple(ordinals)


def _take(prefix: str, entries: Sequence[str]) -> tuple[str, ...]:
    taken: list[str] = []
    for entry in entries:
        if entry in taken:
            return ()
        if not entry.startswith(prefix):
            break
        taken.append(entry)
    return tuple(taken)


def mask_of(process: Process, virtual: bool) -> str | None:
    """Return the mask that the process was started with; None means that it sees everything."""
    if process.environment is None:
        return None
    return process.environment.virtual_devices if virtual else process.environment.cuda_visible_devices


def devices_behind(mask: str | None, pool: Sequence[Device]) -> tuple[Device, ...]:
    """Return the devices of ``pool`` (in index order) that ``mask`` leaves; an entry that matches none ends the list."""
    if mask is None:
        return tuple(pool)
    chosen: list[Device] = []
    for entry in parse_mask(mask):
        if entry.isdigit():
            fitting = [device for device in pool if device.index == int(entry)]
        else:
            fitting = [device for device in pool if device.uuid.startswith(entry)]
        if len(fitting) != 1:
            break
        chosen.append(fitting[0])
    return tuple(chosen)


def same_uuid(one: str, other: str) -> bool:
    """Return whether two UUIDs name the same device: torch omits the "GPU-" prefix that NVML writes."""
    return one.removeprefix("GPU-").lower() == other.removeprefix("GPU-").lower()
