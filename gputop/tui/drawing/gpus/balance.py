"""How many GPUs work, and how evenly they share the work. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from gputop import units
from gputop.doctor.evidence.visible import devices_behind, mask_of
from gputop.doctor.facts.stated import data_parallel
from gputop.groups import compute_uses
from gputop.snapshot import LIVE_STATES, Device, Process
from gputop.tui.state.device_state import slowness
from gputop.tui.state.view import View

WINDOW_S = 10.0
"""Long enough to hide the gap between two steps, short enough to follow a start."""
WORKING_PERCENT = 10.0
"""Mean utilization from which a device counts as working; a display or an idle context stays below."""
EVEN = 0.8
"""Evenness from which the work counts as shared."""


@dataclass(frozen=True, slots=True)
class Balance:
    """``shares`` is each device's mean utilization over ``WINDOW_S`` in percent, None if unknown.

    ``working`` counts the shares of at least ``WORKING_PERCENT``; ``slow`` are those of the working devices that something
    slows down, ``broken`` the devices that are lost or in error. ``evenness`` is mean / max of the known shares (1: all do the
    same; 1/N: one does everything), None while nothing works or fewer than two are known. ``varied`` says that a device worked
    for only a part of ``WINDOW_S``: its newest reading may contradict its share. ``of_run`` says that the devices are the
    chosen run's, and that the machine has more. ``nothing_runs`` says that all work has ended: the shares are then the newest
    readings, because the mean still counts that work.
    """

    devices: tuple[Device, ...]
    shares: tuple[float | None, ...]
    working: int
    evenness: float | None
    slow: tuple[Device, ...] = ()
    broken: tuple[Device, ...] = ()
    varied: bool = False
    of_run: bool = False
    nothing_runs: bool = False

    @property
    def known(self) -> bool:
        """True if the utilization of at least one device is known."""
        return any(share is not None for share in self.shares)

    @property
    def unknown(self) -> int:
        """How many devices have no known utilization, although nothing is wrong with them."""
        return sum(share is None for share in self.shares) - len(self.broken)

    @property
    def uneven(self) -> bool:
        """Whether some of the devices do much less than the others."""
        return self.evenness is not None and self.evenness < EVEN


def balance(view: View) -> Balance:
    """Return the balance of the devices that the chosen run may use; of all devices if those are fewer than two.

    A lost device always counts: the driver no longer lists processes on it, so its owner is unknown.
    """
    every = countable(view.snapshot.devices)
    broken = tuple(device for device in every if device.state in ("lost", "error"))
    chosen = run_devices(view)
    devices = tuple(device for device in every if device in chosen or device in broken) if len(chosen) > 1 else every
    nothing_runs = _nothing_runs(view, devices)
    seconds = 0.0 if nothing_runs else WINDOW_S
    uses = [_recent(view, device, seconds) if device.state == "ok" else None for device in devices]
    shares = tuple(use.mean if use is not None else None for use in uses)
    known = [share for share in shares if share is not None]
    working = sum(share >= WORKING_PERCENT for share in known)
    top = max(known, default=0.0)
    evenness = units.mean(known) / top if working and len(known) > 1 else None
    slow = tuple(
        device
        for share, device in zip(shares, devices, strict=True)
        if share is not None and share >= WORKING_PERCENT and _works_now(device) and slowness(device) is not None
    )
    varied = any(use is not None and use.lowest < WORKING_PERCENT <= use.highest for use in uses)
    of_run = 1 < len(chosen) == len(devices) < len(every)
    return Balance(devices, shares, working, evenness, slow, broken, varied, of_run, nothing_runs)


def _nothing_runs(view: View, devices: Sequence[Device]) -> bool:
    """Return whether all work has ended. A process that uses the GPUs may be between two steps."""
    runs = view.snapshot.process_runs or any(run.state in LIVE_STATES for run in view.snapshot.runs)
    return not (runs or any(map(_works_now, devices)) or any(map(compute_uses, view.snapshot.processes)))


def _works_now(device: Device) -> bool:
    """Return whether a device is at work as far as is known: between two steps, its clock may fall."""
    return device.utilization_percent is None or device.utilization_percent >= WORKING_PERCENT


def run_devices(view: View) -> tuple[Device, ...]:
    """Return the devices that the chosen run uses or was given.

    These are the devices that its processes use, that its launch named (CUDA_VISIBLE_DEVICES, virtual GPUs) and that its
    DataParallel spans. If several of its ranks share a device without such a mask, every device counts: they could use it.
    """
    if view.run is None:
        return ()
    pool = countable(view.snapshot.devices)
    processes = [process for process in view.snapshot.processes if process.run_id == view.run_id]
    virtual = view.snapshot.host.source == "virtual"
    chosen = {use.device_uuid for process in processes for use in process.devices}
    used = [process.devices[0].device_uuid for process in processes if process.devices and process.rank is not None]
    shared = len(set(used)) < len(used)
    for process in processes:
        mask = mask_of(process, virtual)
        if mask is not None or shared:
            chosen.update(device.uuid for device in devices_behind(mask, pool))
    for rank in view.run.ranks:
        spans = data_parallel(rank)
        if spans is not None:
            visible = devices_behind(_mask_of_pid(processes, rank.local_pid, virtual), pool)
            chosen.update(visible[index].uuid for index in spans.device_ids if index < len(visible))
    return tuple(device for device in pool if device.uuid in chosen)


def _mask_of_pid(processes: Sequence[Process], pid: int | None, virtual: bool) -> str | None:
    found = next((process for process in processes if process.pid == pid), None)
    return mask_of(found, virtual) if found else None


def countable(devices: Sequence[Device]) -> tuple[Device, ...]:
    """Leave out GPUs that are split into MIG instances: the instances count instead, if their utilization is known."""
    parents = {device.parent_uuid for device in devices if device.parent_uuid}
    return tuple(device for device in devices if device.uuid not in parents)


def recent_use(view: View, device: Device) -> float | None:
    """Return a device's mean utilization over the last ``WINDOW_S`` in percent; None if it is not known."""
    use = _recent(view, device, WINDOW_S)
    return use.mean if use is not None else None


class _Use(NamedTuple):
    """A device's utilization over some seconds, in percent."""

    mean: float
    lowest: float
    highest: float


def _recent(view: View, device: Device, seconds: float) -> _Use | None:
    series, start = view.history.device(device.uuid, "utilization_percent"), view.snapshot.time - seconds
    if series is None:
        return None
    first = last = len(series.buckets)
    while first and series.buckets.x_last[first - 1] >= start:
        first -= 1
    held = series.buckets.merged(first, last) if first < last else None
    if held is None or not held.count or not math.isfinite(held.total):
        return None
    return _Use(held.total / held.count, held.low, held.high)


def evenness_words(evenness: float) -> str:
    """Return the load balance, the mean use as a share of the busiest GPU's, in words: "load balance 97%"."""
    return f"load balance {int(evenness * 100 + 0.5)}%"
