"""The fields that count how long heat or the power brake slowed the clocks down. NVIDIA has moved their ids.

From the constants of NVIDIA's Python bindings (nvidia-ml-py on PyPI): 12.575.51 and 13.580.65 have them at 251, 13.580.82 and
all later ones at 269, and earlier ones lack them. The other releases have settings of power smoothing at these ids.
"""

from __future__ import annotations

import re

from gputop.sources.nvml.counters import Field

_READINGS = ("throttle_thermal_sw_ns", "throttle_thermal_hw_ns", "throttle_power_brake_ns")
_FIRST_ID: tuple[tuple[tuple[int, int], int | None], ...] = (
    ((580, 82), 269),
    ((580, 66), None),  # between two releases of the bindings: unknown
    ((575, 0), 251),
    ((0, 0), None),
)
"""(first driver version, first of its three ids), newest first."""


def slowdown_fields(driver_version: str | None) -> tuple[Field, ...]:
    """Return the fields that this driver certainly has; a driver of unknown version counts as new."""
    numbers = [int(number) for number in re.findall(r"\d+", driver_version or "")]
    version = (numbers[0], numbers[1]) if len(numbers) > 1 else _FIRST_ID[0][0]
    first = next(first for since, first in _FIRST_ID if version >= since)
    return () if first is None else tuple(Field(reading, first + place) for place, reading in enumerate(_READINGS))
