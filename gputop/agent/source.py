"""Chooses the source of the devices, and which of them are shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from gputop.errors import NoGpuError, UsageError
from gputop.snapshot import Device, DeviceUse, HostSource, Problem
from gputop.sources.base import Claim, Reading, Source


class NoSource:
    """The source when there is no GPU and virtual ones are not wanted: no devices, and the reason."""

    name: HostSource = "none"

    def __init__(self, problem: Problem) -> None:
        self.problem = problem

    def start(self, interval_s: float) -> None:
        """Do nothing: there is nothing to start."""

    def read(self, claims: Sequence[Claim] = ()) -> Reading:
        """Return no devices and the reason."""
        return Reading((), {}, problem=self.problem)

    def wait_until_whole(self, timeout_s: float, rates: bool = True) -> None:
        """Do nothing: there is nothing to wait for."""

    def want_pcie(self, wanted: bool) -> None:
        """Do nothing: there is no link to measure."""

    def close(self) -> None:
        """Do nothing: there is nothing to stop."""


def choose_source(interval_s: float, virtual: int | None = None, *, fall_back: bool = True) -> tuple[Source, Problem | None]:
    """Return a started source, and why it is not NVML.

    ``virtual`` requests that many virtual GPUs (0: a number that suits this machine). Without it, NVML is tried first; if there
    is no GPU, virtual GPUs stand in (with ``fall_back``), else ``NoSource``.
    """
    if virtual is None:
        from gputop.sources.nvml.source import NvmlSource

        nvml = NvmlSource()
        try:
            nvml.start(interval_s)
        except NoGpuError as error:
            problem = Problem(error.code, error.message, error.hint)
            if not fall_back:
                return NoSource(problem), problem
        else:
            return nvml, None
    else:
        problem = None
    from gputop.sources.virtual import VirtualSource

    source = VirtualSource(virtual or None)
    source.start(interval_s)
    return source, problem


def uses_on(uses: Mapping[int, tuple[DeviceUse, ...]], devices: Iterable[Device]) -> dict[int, tuple[DeviceUse, ...]]:
    """Return PID -> its uses of these devices, without processes that use none of them."""
    shown = {device.uuid for device in devices}
    kept = {pid: tuple(use for use in of if use.device_uuid in shown) for pid, of in uses.items()}
    return {pid: of for pid, of in kept.items() if of}


def select_devices(devices: tuple[Device, ...], gpus: Sequence[str]) -> tuple[Device, ...]:
    """Return the devices named by index, UUID or the start of a UUID; all if none is named.

    Raises:
        UsageError: a name matches no device.
    """
    if not gpus or not devices:
        return devices
    chosen = set()
    for name in gpus:
        found = {
            device.uuid
            for device in devices
            if (name.isdigit() and device.index == int(name)) or (not name.isdigit() and device.uuid.startswith(name))
        }
        if not found:
            known = ", ".join(str(device.index) for device in devices)
            raise UsageError(f"There is no GPU {name!r} here.", f"This machine has {known}.")
        chosen |= found
    return tuple(device for device in devices if device.uuid in chosen or device.parent_uuid in chosen)
