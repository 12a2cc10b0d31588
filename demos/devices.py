"""How a demo gets its device: a GPU if CUDA is available, else a virtual GPU.

A virtual GPU is one core of this machine's CPU. It follows the rules of a real one: a rank takes the device of its local rank;
GPUTOP_VIRTUAL_DEVICES="2,3" is to virtual GPUs what CUDA_VISIBLE_DEVICES is to real ones (the first one listed becomes device
0); and two ranks on one device share it, which makes both slower.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

import torch

import gputop

T = TypeVar("T")

CORES = "GPUTOP_DEMO_CORES"
"""Environment variable: the cores that a rank had before it took one of them as its virtual GPU."""
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
    """Return the number of devices that this process may use."""
    return torch.cuda.device_count() if torch.cuda.is_available() else len(_virtual_devices())


def take(index: int) -> Place:
    """Assign device ``index`` (the local rank, under torchrun) to this process, and return it.

    Raises:
        ValueError: this process has no such device.
    """
    if not 0 <= index < count():
        raise ValueError(f"There is no device {index}: this process may use {count()}, counted from 0.")
    if torch.cuda.is_available():
        torch.cuda.set_device(index)  # "cuda" now means this GPU, even inside NCCL
        return Place(torch.device("cuda", index))
    place = Place(torch.device("cpu"), _virtual_devices()[index])
    torch.set_num_threads(1)  # one core is one virtual GPU
    pin(place)
    return place


def pin(place: Place) -> None:
    """Pin the calling thread to the core of its virtual GPU, if the machine has a core for each."""
    if place.virtual_index is not None and place.virtual_index < len(_CORES):
        os.environ[CORES] = ",".join(map(str, _CORES))
        os.sched_setaffinity(0, {_CORES[place.virtual_index]})


def unpin(*_: object) -> None:
    """Give the calling process all cores again: a DataLoader worker (``worker_init_fn``) inherits the one core of its rank."""
    # From Python 3.14 on, a worker is no fork of its rank: it has imported this module when it had one core already.
    cores = [int(core) for core in os.environ.get(CORES, "").split(",") if core] or _CORES
    if cores:
        os.sched_setaffinity(0, cores)


def report(run: gputop.Run, place: Place) -> None:
    """Tell gputop as which virtual GPU this whole process works. Real GPUs need no report: the driver knows."""
    if place.virtual_index is not None:
        run.fact("devices", [_claim(place.virtual_index, None, None)])


def _claim(virtual_index: int | None, thread_id: int | None, memory_bytes: int | None) -> dict[str, object]:
    return {
        "name": "cpu",
        "uuid": None,
        "virtual_index": virtual_index,
        "thread_id": thread_id,
        "memory_bytes": memory_bytes,
    }


def places() -> list[Place]:
    """Return every device that this process may use, in logical order: GPUs, else virtual GPUs."""
    if torch.cuda.is_available():
        return [Place(torch.device("cuda", index)) for index in range(torch.cuda.device_count())]
    return [Place(torch.device("cpu"), index) for index in _virtual_devices()]


class Worker:
    """A thread that represents one device: work submitted to it runs there, in order.

    Threads of one process can compute at the same time, because torch works outside Python's lock.
    """

    def __init__(self, place: Place) -> None:
        name = f"virtual-gpu-{place.virtual_index}" if place.virtual_index is not None else str(place)
        self.place = place
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self.thread_id = self._pool.submit(self._start).result()
        self.held_bytes = 0
        """Bytes reported with ``holds``: gputop shows them as the memory of the virtual GPU."""

    def _start(self) -> int:
        if self.place.device.type == "cuda":
            torch.cuda.set_device(self.place.device)
        else:
            torch.set_num_threads(1)
            pin(self.place)
        return threading.get_native_id()

    def submit(self, work: Callable[..., T], *args: object) -> Future[T]:
        """Run ``work(*args)`` on this device; the future holds the result."""
        return self._pool.submit(work, *args)

    def holds(self, tensors: Iterable[torch.Tensor | None]) -> None:
        """Record which tensors are on this device."""
        self.held_bytes = sum(tensor.numel() * tensor.element_size() for tensor in tensors if tensor is not None)


def report_workers(run: gputop.Run, workers: Sequence[Worker]) -> None:
    """Tell gputop which threads are virtual GPUs, and how much each holds. Real GPUs need no report."""
    virtual = [worker for worker in workers if worker.place.virtual_index is not None]
    if virtual:
        claims = [_claim(worker.place.virtual_index, worker.thread_id, worker.held_bytes) for worker in virtual]
        run.fact("devices", claims)


def _virtual_devices() -> list[int]:
    """Return the mask: logical index -> index on this machine. Without a mask: one per core, at least 2, at most 8."""
    mask = os.environ.get("GPUTOP_VIRTUAL_DEVICES")
    if mask is None:
        return list(range(min(8, max(2, len(_CORES)))))
    try:
        listed = [int(part) for part in mask.split(",") if part.strip()]
    except ValueError:
        raise ValueError(f"GPUTOP_VIRTUAL_DEVICES is {mask!r}; it should be a list of indices like 0,1.") from None
    return listed if len(set(listed)) == len(listed) else []  # CUDA's rule: a GPU listed twice empties the list
