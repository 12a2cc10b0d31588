"""The protocol of a device source. A source owns its threads; ``read`` never blocks on a driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from gputop.snapshot import Device, DeviceUse, HostSource, Problem


@dataclass(frozen=True, slots=True)
class Claim:
    """A report by a process or one of its threads that it works as a virtual GPU (the journal's fact ``devices``).

    ``thread_id`` None means the whole process. ``memory_bytes`` None means the process's resident memory.
    """

    pid: int
    virtual_index: int
    thread_id: int | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """One reading of all devices. ``uses``: PID -> its use of each device."""

    devices: tuple[Device, ...]
    uses: Mapping[int, tuple[DeviceUse, ...]]
    driver_version: str | None = None
    cuda_version: str | None = None
    simulated: bool = False
    problem: Problem | None = None
    notes: tuple[Problem, ...] = ()
    nvml_calls: int | None = None
    """Driver calls since the previous reading."""


class Source(Protocol):
    """Reads devices. There are two: ``sources/nvml/source.py`` and ``sources/virtual.py``."""

    name: HostSource

    def start(self, interval_s: float) -> None:
        """Start to read every ``interval_s`` seconds; call again to change the interval.

        Raises:
            NoGpuError: this source cannot work on this machine; the message says why and what to do.
        """

    def read(self, claims: Sequence[Claim] = ()) -> Reading:
        """Return the newest reading of every device within a fraction of a second, whatever the driver does.

        A device whose reading is older than three intervals has state "stale" and its last values.
        Only the virtual source uses ``claims``.
        """

    def wait_until_whole(self, timeout_s: float, rates: bool = True) -> None:
        """Wait at most ``timeout_s`` for a reading with everything that the devices report.

        With ``rates``, that includes what takes two readings: throughput, and activity between two samples.
        """

    def want_pcie(self, wanted: bool) -> None:
        """Start or stop measuring PCIe throughput on devices where that is expensive; it is off at first."""

    def close(self) -> None:
        """Stop, without waiting for a driver call."""
