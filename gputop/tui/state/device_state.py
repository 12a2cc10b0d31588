"""Whether a device works as it should: in trouble, throttled, or at a low clock. Pure; words are as reported."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from gputop import units

if TYPE_CHECKING:
    from gputop.snapshot import Device

LOW_CLOCK_SHARE = 0.6
"""A working GPU below this share of its highest SM clock is slow; a power limit alone keeps an H100 above it."""

_BENIGN = ("none", "gpu_idle", "idle", "applications_clocks_setting", "display_clock_setting")
_THROTTLE = (
    # (part of NVML's name, at most four letters for a tight row, words, style); the first match is shown
    ("thermal", "hot", "slowed by heat", "bad"),
    ("power_brake", "brk", "slowed by the power brake", "bad"),
    ("hw_slowdown", "slow", "slowed by the hardware", "bad"),
    ("power", "cap", "at the power limit", "dim"),
    ("sync_boost", "sync", "held back by sync boost", "warn"),
)


def trouble(device: Device) -> tuple[str, str] | None:
    """Return a one-word state and the problem, for a device whose numbers would mislead."""
    if device.state == "ok":
        return None
    words = f"{device.problem.message} {device.problem.hint}".strip() if device.problem else ""
    if device.state == "stale":
        age = f"for {units.duration(device.age_s)}" if device.age_s is not None else "for a while"
        return "stale", f"{words} ({age})" if words else f"the driver has not answered {age}"
    if device.state == "lost":
        return "lost", words or "the GPU has fallen off the bus; restart the machine"
    return "err", words or "the driver reports an error for this GPU"


def throttle(device: Device) -> tuple[str, str, str] | None:
    """Return (short, words, style) of what throttles the clocks; None if nothing unusual does."""
    return _first(device.throttle_reasons)


def slowed_by(reasons: Iterable[str]) -> list[tuple[str, str]]:
    """Return (words, style) of each reason that is unusual, the same words once."""
    found = (_first((reason,)) for reason in reasons)
    return list(dict.fromkeys((words, style) for _, words, style in filter(None, found)))


def _first(reported: Iterable[str]) -> tuple[str, str, str] | None:
    reasons = [reason for reason in reported if reason not in _BENIGN]
    for part, short, words, style in _THROTTLE:
        if any(part in reason for reason in reasons):
            return short, words, style
    return ("slow", reasons[0].replace("_", " "), "warn") if reasons else None


def clock_share(device: Device) -> float | None:
    """Return the SM clock as a share (0 to 1) of the GPU's highest, or None if unknown."""
    if device.sm_clock_mhz is None or not device.sm_clock_max_mhz:
        return None
    return device.sm_clock_mhz / device.sm_clock_max_mhz


def slowness(device: Device) -> str | None:
    """Return in a few words what slows a working device down; None for one that runs as it should.

    A power limit counts only if it costs much of the clock: most GPUs in full use are at their limit.
    """
    found = throttle(device)
    if found is not None and found[2] != "dim":
        return found[1]
    share = clock_share(device)
    return f"at {share * 100:.0f}% of its clock" if share is not None and share < LOW_CLOCK_SHARE else None


def short_name(device: Device) -> str:
    """Return the model without its vendor: "H100 80GB HBM3"."""
    name = device.name or "unknown model"
    for prefix in ("NVIDIA ", "Tesla ", "GeForce "):
        name = name.removeprefix(prefix)
    return name
