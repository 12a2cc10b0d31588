"""Batched field values, GPM activity, and rates computed from counters.

A batch requests many readings in one driver call. GPM keeps the sample of the previous tick, so that its window is the
interval and no thread sleeps for it.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gputop.sources.nvml.calls import INVALID_ARGUMENT, NOT_SUPPORTED, SUCCESS, Asker, FieldValue, GpmMetrics, GpmSample

ALL_LINKS = 0xFFFFFFFF
"""Scope of an NVLink field: the sum over all links."""

_BATCH = "nvmlDeviceGetFieldValues"
_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""A field's union member by its value type."""


class Field(NamedTuple):
    """One field of a batch: the reading's name, NVML's id, and the scope (0, a link, or ALL_LINKS)."""

    reading: str
    id: int
    scope: int = 0


class FieldBatch:
    """Reads many fields in one call, and drops those that the device lacks."""

    def __init__(self, asker: Asker, fields: Sequence[Field]) -> None:
        self._asker = asker
        self._fields = list(fields)
        self._times: dict[str, float] = {}
        self._lay_out()

    def _lay_out(self) -> None:
        # One more than requested: some drivers touch an entry past the end for NVLink fields.
        self._array = (FieldValue * (len(self._fields) + 1))()
        for entry, field in zip(self._array, self._fields, strict=False):
            entry.fieldId, entry.scopeId = field.id, field.scope
        self._reference = ctypes.byref(self._array)
        self._count = ctypes.c_int(len(self._fields))

    def has(self, reading: str) -> bool:
        """Return whether the device may still provide ``reading``."""
        return any(field.reading == reading for field in self._fields)

    def time_of(self, reading: str, default: float) -> float:
        """Return when the driver read this field, in its own seconds; ``default`` if unknown."""
        return self._times.get(reading) or default

    def read(self) -> dict[str, float]:
        """Return the values that the device provided; a field that failed this time is missing.

        Raises:
            DeviceGoneError: the device is lost or needs a reset.
        """
        if not self._fields:
            return {}
        if not self._asker.ask("fields", _BATCH, self._count, self._reference):
            if self._asker.never("fields", _BATCH):
                self._fields.clear()
            return {}
        values: dict[str, float] = {}
        dropped = []
        for field, entry in zip(self._fields, self._array, strict=False):
            code = entry.nvmlReturn
            if code == SUCCESS:
                self._asker.denied.discard(field.reading)
                if entry.valueType < len(_MEMBERS):
                    values[field.reading] = getattr(entry.value, _MEMBERS[entry.valueType])
                    self._times[field.reading] = entry.timestamp * 1e-6
            elif code == INVALID_ARGUMENT:
                dropped.append(field)  # this driver does not know the id, and never will
            elif not self._asker.judge((field.reading, str(field.id)), code) and self._asker.never(
                field.reading, str(field.id)
            ):
                dropped.append(field)
        if dropped:
            self._fields = [field for field in self._fields if field not in dropped]
            self._lay_out()
        return values


class Rate:
    """A cumulative counter as a rate per second."""

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None

    def per_second(self, value: float | None, now: float) -> float | None:
        """Return the growth per second since the previous value; None at first, and after a reset of the counter."""
        last, self._last = self._last, None if value is None else (value, now)
        if last is None or value is None or now <= last[1] or value < last[0]:
            return None
        return (value - last[0]) / (now - last[1])


_LANE_BYTES_PER_S = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}
"""Maximum throughput of a PCIe lane, by generation."""
_WRAP = 2**32
"""Where a 32-bit counter starts again."""


class PcieCounter:
    """The PCIe byte counters (fields 197, 198), which on many GPUs have 32 bits and wrap.

    A 32-bit counter is ambiguous if the link can move 4 GiB between two readings, so the rate is then None; a value beyond
    32 bits shows that the counter is wide.
    """

    def __init__(self) -> None:
        self._last: tuple[float, float] | None = None
        self._wide = False

    def bytes_per_s(self, value: float | None, now: float, generation: int | None, width: int | None) -> float | None:
        """Return bytes per second, or None if ambiguous; the link's maximum generation and width bound them."""
        last, self._last = self._last, None if value is None else (value, now)
        self._wide = self._wide or (value is not None and value >= _WRAP)
        if value is None or last is None or now <= last[1]:
            return None
        elapsed, grown = now - last[1], value - last[0]
        if not self._wide:
            if _LANE_BYTES_PER_S.get(generation or 0, math.inf) * (width or 16) * elapsed >= _WRAP:
                return None
            grown += _WRAP if grown < 0 else 0
        return grown / elapsed if grown >= 0 else None


MIB = 2**20
"""GPM reports throughput in MiB per second."""
_PERCENT = {
    1: "graphics_activity_percent",
    2: "sm_activity_percent",
    3: "sm_occupancy_percent",
    5: "tensor_activity_percent",
    10: "dram_activity_percent",
}
_MIB_PER_S = {
    20: "pcie_tx_bytes_per_s",
    21: "pcie_rx_bytes_per_s",
    60: "nvlink_rx_bytes_per_s",  # for NVLink, receive comes first; for PCIe, transmit
    61: "nvlink_tx_bytes_per_s",
}
_GPM = ("sm_activity_percent", "nvmlGpmSampleGet")
GPM_WINDOW_MIN_S = 0.1
"""Minimum time between samples. According to NVML's documentation, metrics over less than 100 ms are unreliable."""


class Gpm:
    """Activity of a device (Hopper and later) between two ticks. Owns two samples until ``close``.

    ``take`` fills a sample, for a GPU or for a MIG instance.
    """

    def __init__(self, asker: Asker, take: Callable[[Any], int]) -> None:
        self._asker = asker
        self._calls = asker.calls
        self._take = take
        self._get = GpmMetrics()
        self._get.version = 1
        self._readings = list((_PERCENT | _MIB_PER_S).items())
        self._samples = [GpmSample(), GpmSample()]
        self.supported = all(asker.calls("nvmlGpmSampleAlloc", ctypes.byref(sample)) == SUCCESS for sample in self._samples)
        self._taken_at: float | None = None
        self._newest: dict[str, float] = {}

    def read(self, now: float) -> dict[str, float]:
        """Return activities in percent and rates in bytes per second since the previous sample; empty the first time.

        Raises:
            DeviceGoneError: the device is lost or needs a reset.
        """
        if not self.supported:
            return {}
        if self._taken_at is not None and now - self._taken_at < GPM_WINDOW_MIN_S:
            return self._newest
        self._newest = self._read(now)
        return self._newest

    def _read(self, now: float) -> dict[str, float]:
        before, fresh = self._samples
        if not self._asker.judge(_GPM, self._take(fresh)):
            self._taken_at = None
            self.supported = not self._asker.never(*_GPM)
            return {}
        has_previous, self._taken_at = self._taken_at is not None, now
        self._samples = [fresh, before]
        if not has_previous:
            return {}
        return self._metrics(before, fresh)

    def _metrics(self, before: Any, fresh: Any) -> dict[str, float]:
        get = self._get
        get.sample1, get.sample2, get.numMetrics = before, fresh, len(self._readings)
        for metric, (number, _) in zip(get.metrics, self._readings, strict=False):
            metric.metricId = number
        if self._calls("nvmlGpmMetricsGet", ctypes.byref(get)) != SUCCESS:
            return {}
        values: dict[str, float] = {}
        unsupported = []
        for metric, item in zip(get.metrics, self._readings, strict=False):
            number, reading = item
            if metric.nvmlReturn == NOT_SUPPORTED:
                unsupported.append(item)
            elif metric.nvmlReturn == SUCCESS and math.isfinite(metric.value) and metric.value >= 0:
                if number in _MIB_PER_S:
                    values[reading] = metric.value * MIB
                elif metric.value < 101:
                    values[reading] = min(metric.value, 100.0)
        if unsupported:
            self._readings = [item for item in self._readings if item not in unsupported]
        return values

    def close(self) -> None:
        """Free the samples; call only from the reading thread."""
        self.supported = False
        for sample in self._samples:
            if sample:
                self._calls("nvmlGpmSampleFree", sample)
        self._samples = []
