"""How busy each GPU was over the last seconds. ``Evidence`` feeds it each snapshot. Pure: no clock."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from gputop.snapshot import Device, Snapshot

LOAD_WINDOW_S = 12.0
"""Contexts, not utilization, show who owns a GPU, so 12 s are enough to report a fault within 15 s."""
LOAD_SPAN_MIN_S = 7.5
"""A device counts as idle only once it was observed for this long: eight readings, with some tolerance (our choice)."""
KEPT_SAMPLES = 1200
"""Maximum number of samples of a device."""
BUSY_PERCENT = 10.0
"""Average utilization of a GPU that works (docs/rules.md#measures)."""
IDLE_PERCENT = 3.0
IDLE_SHARE = 0.95
"""A GPU is idle when 95% of its readings are below 3% (docs/rules.md#measures)."""


@dataclass(frozen=True, slots=True)
class Load:
    """A device's load over the last ``span_s`` seconds: mean utilization, and the share of samples in which it idled."""

    mean_percent: float
    idle_share: float
    span_s: float

    @property
    def busy(self) -> bool:
        """Whether the device is busy."""
        return self.mean_percent >= BUSY_PERCENT

    @property
    def idle(self) -> bool:
        """Whether the device is idle and was observed for long enough to tell."""
        return self.idle_share >= IDLE_SHARE and self.span_s >= LOAD_SPAN_MIN_S


class DeviceLoads:
    """The devices of the newest snapshot, and their utilization over the window."""

    def __init__(self) -> None:
        self._now = -math.inf
        self._devices: dict[str, Device] = {}
        self._samples: dict[str, deque[tuple[float, float]]] = {}
        self._loads: dict[str, Load | None] = {}

    def begin(self) -> None:
        """Forget the devices of the last snapshot: the next one may turn out to be unreadable."""
        self._devices, self._loads = {}, {}

    def observe(self, snapshot: Snapshot) -> None:
        """Process the next snapshot of the stream."""
        self._now = snapshot.monotonic_s
        self._devices = {device.uuid: device for device in snapshot.devices}
        for device in snapshot.devices:
            value = device.utilization_percent
            if device.state != "ok" or value is None or not math.isfinite(value):
                continue
            samples = self._samples.setdefault(device.uuid, deque(maxlen=KEPT_SAMPLES))
            samples.append((self._now, value))
        for uuid in self._samples.keys() - self._devices.keys():
            del self._samples[uuid]

    def device(self, uuid: str) -> Device | None:
        """Return the newest reading of a device."""
        return self._devices.get(uuid)

    def load(self, uuid: str) -> Load | None:
        """Return the device's load over the window; None if its utilization is unknown."""
        if uuid not in self._loads:
            self._loads[uuid] = self._load(uuid)
        return self._loads[uuid]

    def _load(self, uuid: str) -> Load | None:
        device, samples = self._devices.get(uuid), self._samples.get(uuid)
        if device is None or device.utilization_percent is None or not samples:
            return None
        while samples and samples[0][0] < self._now - LOAD_WINDOW_S:
            samples.popleft()
        if not samples:
            return None
        values = [value for _, value in samples]
        idle = sum(value < IDLE_PERCENT for value in values)
        return Load(sum(values) / len(values), idle / len(values), self._now - samples[0][0])
