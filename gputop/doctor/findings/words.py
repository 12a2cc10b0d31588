"""How findings name GPUs and ranks: "GPU 0", "GPUs 1-7", "rank 3", "ranks 1-3". Pure text."""

from __future__ import annotations

from collections.abc import Sequence

from gputop import units
from gputop.snapshot import Device
from gputop.units import ranges

SHORT_UUID = 11
"""How many characters of a UUID are shown: "GPU-" and seven digits tell the GPUs of a machine apart."""


def gpu(device: Device | None, uuid: str = "") -> str:
    """Return "GPU 0" or "virtual GPU 0"; a UUID when the device is not listed."""
    if device is None:
        return f"GPU {uuid}"
    return f"{'virtual ' if device.kind == 'virtual' else ''}GPU {device.index}"


def gpu_with_uuid(device: Device | None, uuid: str) -> str:
    """Return "GPU 0 (GPU-5f00000…)": the name for people and the name for programs."""
    short = uuid if len(uuid) <= SHORT_UUID else f"{uuid[:SHORT_UUID]}…"
    return f"{gpu(device, short)} ({short})" if device is not None else f"GPU {short}"


def gpus(devices: Sequence[Device]) -> str:
    """Return "GPU 3" or "GPUs 1-7"."""
    kind = "virtual " if devices and all(device.kind == "virtual" for device in devices) else ""
    return f"{kind}GPU{'s' if len(devices) != 1 else ''} {ranges(device.index for device in devices)}"


def ranks(numbers: Sequence[int]) -> str:
    """Return "rank 3" or "ranks 1-3"."""
    return f"rank{'s' if len(set(numbers)) != 1 else ''} {ranges(numbers)}"


def processes(pids: Sequence[int]) -> str:
    """Return "process 4001" or "processes 4001, 4002"."""
    return f"process{'es' if len(pids) != 1 else ''} {', '.join(map(str, pids))}"


def agree(number: int, one: str, several: str) -> str:
    """Return the verb or pronoun that agrees with ``number``."""
    return one if number == 1 else several


def count(number: int, noun: str) -> str:
    """Return "1 rank" or "4 000 ranks"."""
    return f"{units.count(number)} {noun}{'' if number == 1 else 's'}"
