"""What a source of device readings is. A source owns its own threads; ``read`` never blocks on a driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gputop.snapshot import Device, DeviceUse, HostSource, Problem


@dataclass(frozen=True, slots=True)
class Claim:
    """A process, or one of its threads, says that it works as a virtual GPU (the journal's fact ``devices``).

    ``thread_id`` None means the whole process. ``memory_bytes`` None means: take the process's resident memory.
    """

    pid: int
    virtual_index: int
    thread_id: int | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of all devices: the devices, and for each PID what it has on which device."""

    devices: tuple[Device, ...]
    uses: Mapping[int, tuple[DeviceUse, ...]]
    driver_version: str | None = None
    cuda_version: str | None = None
    simulated: bool = False
    problem: Problem | None = None
    notes: tuple[Problem, ...] = ()
    nvml_calls: int | None = None


class Source(Protocol):
    """Reads devices. Two exist: ``sources/nvml/source.py`` and ``sources/virtual.py``."""

    name: HostSource

    def start(self, interval_s: float) -> None:
        """Begin to read every ``interval_s`` seconds; called once, also to change the interval later.

        Raises:
            NoGpuError: this source cannot work on this machine; the message says why and what to do.
        """

    def read(self, claims: Sequence[Claim] = ()) -> Reading:
        """Return the newest reading of every device within a fraction of a second, whatever the driver does.

        A device whose reading is older than three intervals comes back with state "stale" and its last values.
        ``claims`` serve the virtual source alone.
        """

    def close(self) -> None:
        """Stop; never waits for a driver call."""
