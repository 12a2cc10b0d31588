"""How a demo gets its device: a GPU where there is CUDA, else a virtual GPU.

A virtual GPU is one core of this machine's processor. It keeps the rules of a real one: a rank takes the device of its
local rank, GPUTOP_VIRTUAL_DEVICES="2,3" is to virtual GPUs what CUDA_VISIBLE_DEVICES is to real ones (the first one
listed becomes device 0), and two ranks on one device share it and are slower for it.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass

import torch

import gputop

_CORES = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []


@dataclass(frozen=True)
class Place:
    """Where a process or thread computes. ``virtual_index`` is None on a real GPU."""

    device: torch.device
    virtual_index: int | None = None

    def __str__(self) -> str:
        if self.virtual_index is None:
            return str(self.device)
        return f"virtual GPU {self.virtual_index} (one core of the CPU)"


def count() -> int:
    """Return how many devices this process may use."""
    return torch.cuda.device_count() if torch.cuda.is_available() else len(_virtual_devices())


def take(index: int) -> Place:
    """Make device ``index`` (the local rank, under torchrun) this process's own, and return it.

    Raises:
        ValueError: this process has no such device.
    """
    if not 0 <= index < count():
        raise ValueError(f"There is no device {index}: this process may use {count()}, counted from 0.")
    if torch.cuda.is_available():
        torch.cuda.set_device(index)  # "cuda" now means this GPU, also inside NCCL
        return Place(torch.device("cuda", index))
    place = Place(torch.device("cpu"), _virtual_devices()[index])
    torch.set_num_threads(1)  # one core is one virtual GPU
    pin(place)
    return place


def pin(place: Place) -> None:
    """Keep the calling thread on the core of its virtual GPU, where the machine has a core for each."""
    if place.virtual_index is not None and place.virtual_index < len(_CORES):
        os.sched_setaffinity(0, {_CORES[place.virtual_index]})


def report(run: gputop.Run, place: Place) -> None:
    """Tell gputop which virtual GPU this whole process is. A real GPU needs no telling: the driver knows."""
    if place.virtual_index is not None:
        run.fact("devices", [_claim(place.virtual_index, None, None)])


def report_threads(run: gputop.Run, claims: list[tuple[int, int, int]]) -> None:
    """Tell gputop which threads are virtual GPUs: (virtual index, thread id, bytes that it holds) of each."""
    run.fact("devices", [_claim(*claim) for claim in claims])


def _claim(virtual_index: int, thread_id: int | None, memory_bytes: int | None) -> dict[str, object]:
    return {
        "name": "cpu",
        "uuid": None,
        "virtual_index": virtual_index,
        "thread_id": thread_id,
        "memory_bytes": memory_bytes,
    }


def virtual_places() -> list[Place]:
    """Return every virtual GPU that this process may use, in logical order."""
    return [Place(torch.device("cpu"), index) for index in _virtual_devices()]


def start_thread(place: Place) -> int:
    """Make the calling thread the virtual GPU ``place``; return its thread id."""
    torch.set_num_threads(1)
    pin(place)
    return threading.get_native_id()


def _virtual_devices() -> list[int]:
    """Return the mask: logical index -> index on this machine. Without a mask: one per core, at least 2, at most 8."""
    mask = os.environ.get("GPUTOP_VIRTUAL_DEVICES")
    if mask is None:
        return list(range(min(8, max(2, len(_CORES)))))
    try:
        return [int(part) for part in mask.split(",") if part.strip()]
    except ValueError:
        raise ValueError(f"GPUTOP_VIRTUAL_DEVICES is {mask!r}; it should be a list of indices like 0,1.") from None
