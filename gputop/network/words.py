"""Speeds and rates of networks in words. Pure."""

from __future__ import annotations

import math

from gputop.units import UNKNOWN


def speed_text(mbit_per_s: float | None) -> str:
    """Return "25 Gb/s", "1.5 Gb/s" or "100 Mb/s": networks are rated in bits; "N/A" if it is unknown."""
    if mbit_per_s is None or not math.isfinite(mbit_per_s):
        return UNKNOWN
    if mbit_per_s >= 1000:
        return f"{mbit_per_s / 1000:.3g} Gb/s"
    return f"{mbit_per_s:.0f} Mb/s" if mbit_per_s >= 10 else f"{mbit_per_s:.1f} Mb/s"


def mbit_per_s(count: float | None, seconds: float | None) -> float | None:
    """Return the rate of bytes in bits, as speeds are rated; None if it is unknown."""
    return count * 8 / 1e6 / seconds if count is not None and seconds is not None and seconds > 0 else None


def rate_text(count: float | None, seconds: float | None) -> str:
    """Return the rate of bytes as ``speed_text`` does."""
    return speed_text(mbit_per_s(count, seconds))
