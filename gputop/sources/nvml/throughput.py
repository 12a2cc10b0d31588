"""How much a GPU moves over NVLink and PCIe: from GPM, from counters, or by a call that measures for 20 ms."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from gputop.sources.nvml.calls import Asker
from gputop.sources.nvml.counters import ALL_LINKS, Field, FieldBatch, PcieCounter, Rate

NVLINK_FIELDS = (Field("nvlink_tx_kib", 138, ALL_LINKS), Field("nvlink_rx_kib", 139, ALL_LINKS))
PCIE_FIELDS = (Field("pcie_tx_bytes", 197), Field("pcie_rx_bytes", 198))
PCIE_THROUGHPUT = "nvmlDeviceGetPcieThroughput"
_DIRECTIONS = ("tx", "rx")
_COUNTERS = {"tx": 0, "rx": 1}
"""NVML's numbers of the directions in that call."""


class Throughput:
    """Turns the counters of a batch into rates. NVLink: the counters come first, then GPM; PCIe: the other way round."""

    def __init__(self, batch: FieldBatch) -> None:
        self._batch = batch
        self._nvlink = {direction: Rate() for direction in _DIRECTIONS}
        self._pcie = {direction: PcieCounter() for direction in _DIRECTIONS}

    def read(
        self, counted: Mapping[str, float], gpm: Mapping[str, float], now: float, link: tuple[int | None, int | None]
    ) -> dict[str, Any]:
        """Return the rates in bytes per second, and where PCIe's are from.

        Args:
            counted: What the batch has just read.
            gpm: GPM's newest values; empty without GPM.
            now: Monotonic seconds, for counters without a time of their own.
            link: The highest PCIe generation and width of the link, which bound its counters.
        """
        values: dict[str, Any] = {}
        for direction in _DIRECTIONS:
            name, counter = f"nvlink_{direction}_bytes_per_s", f"nvlink_{direction}_kib"
            kib = counted.get(counter)
            rate = self._nvlink[direction].per_second(None if kib is None else kib * 1024, self._batch.time_of(counter, now))
            values[name] = rate if self._batch.has(counter) else gpm.get(name)
            name, counter = f"pcie_{direction}_bytes_per_s", f"pcie_{direction}_bytes"
            at = self._batch.time_of(counter, now)
            values[name] = gpm.get(name, self._pcie[direction].bytes_per_s(counted.get(counter), at, *link))
        known = values["pcie_rx_bytes_per_s"] is not None or values["pcie_tx_bytes_per_s"] is not None
        source = "gpm" if "pcie_rx_bytes_per_s" in gpm else "counters"
        values["pcie_throughput_source"] = source if known else None
        return values


def read_pcie_blocking(asker: Asker) -> dict[str, float | None]:
    """Measure PCIe throughput in bytes per second; blocks for 20 ms per direction.

    Raises:
        DeviceGoneError: the device is lost or needs a reset.
    """
    values: dict[str, float | None] = {}
    for direction, counter in _COUNTERS.items():
        name = f"pcie_{direction}_bytes_per_s"
        kilobytes = asker.number(name, PCIE_THROUGHPUT, ctypes.c_uint(counter))
        values[name] = None if kilobytes is None else kilobytes * 1000.0  # NVML reports KB/s
    return values
