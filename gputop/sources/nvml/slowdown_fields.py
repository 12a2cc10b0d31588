"""Which fields count how long clocks were held down by heat or by the power brake: NVIDIA moved their ids, and moved them back.

From the constants of NVIDIA's Python bindings (nvidia-ml-py on PyPI): 12.575.51 and 13.580.65 have them at 251, 13.580.82 and
all later ones at 269, and earlier ones have none. What the other release has at these ids are settings of power smoothing.
"""

from __future__ import annotations

import re

from gputop.sources.nvml.counters import Field

_READINGS = ("throttle_thermal_sw_ns", "throttle_thermal_hw_ns", "throttle_power_brake_ns")
_FIRST_ID: tuple[tuple[tuple[int, int], int | None], ...] = (
    ((580, 82), 269),
    ((580, 66), None),  # between two releases of the bindings: not known
    ((575, 0), 251),
    ((0, 0), None),
)
"""From this driver on, the newest first, the first of the three ids."""


def slowdown_fields(driver_version: str | None) -> tuple[Field, ...]:
    """Return the fields that this driver certainly has; a driver without a known version counts as a new one."""
    numbers = [int(number) for number in re.findall(r"\d+", driver_version or "")]
    version = (numbers[0], numbers[1]) if len(numbers) > 1 else _FIRST_ID[0][0]
    first = next(first for since, first in _FIRST_ID if version >= since)
    return () if first is None else tuple(Field(reading, first + place) for place, reading in enumerate(_READINGS))
