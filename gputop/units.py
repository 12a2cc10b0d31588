"""Converts numbers to text and back: bytes, percent, watts, durations, rates; also means. None is "N/A" everywhere.

Imports only the standard library and ``gputop.errors``.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Sequence

from gputop.errors import UsageError

UNKNOWN = "N/A"
INTERVAL_MIN_S = 0.1
INTERVAL_MAX_S = 3600.0
"""Limits of the interval. Defined here, because the command line checks them before it starts the sampler."""
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")


def mean(values: Sequence[float]) -> float:
    """Return the mean; finite values give a finite mean (``statistics.fmean`` raises if their sum overflows)."""
    total = sum(values)
    if math.isfinite(total) or not all(map(math.isfinite, values)):
        return total / len(values)
    return sum(value / len(values) for value in values)


def bytes_text(value: float | None) -> str:
    """Return a size with a binary unit: 1536 -> "1.5 KiB"."""
    if value is None:
        return UNKNOWN
    unit = 0
    while abs(value) >= 1024 and unit < len(_BINARY) - 1:
        value /= 1024
        unit += 1
    return f"{value:.0f} B" if unit == 0 else f"{value:.1f} {_BINARY[unit]}"


def gib(value: float | None, digits: int = 1) -> str:
    """Return bytes as a plain number of GiB: the screen shows the unit next to it."""
    return UNKNOWN if value is None else f"{value / 2**30:.{digits}f}"


def gib_of(used: float | None, total: float | None) -> str:
    """Return "12/64 GiB" of bytes; "N/A" without both."""
    return UNKNOWN if used is None or not total else f"{gib(used, 0)}/{gib(total, 0)} GiB"


def gib_or_mib(value: float | None) -> str:
    """Return bytes as "1.9G", or "19M" where that would be less than a tenth of a GiB."""
    if value is None:
        return UNKNOWN
    return f"{value / 2**20:.0f}M" if value < 0.1 * 2**30 else f"{gib(value)}G"


def percent(value: float | None, digits: int = 0) -> str:
    """Return "97%"."""
    return UNKNOWN if value is None else f"{value:.{digits}f}%"


def number(value: float | None, unit: str = "", digits: int = 0) -> str:
    """Return a number and its unit: number(612.3, " W") -> "612 W"."""
    return UNKNOWN if value is None else f"{value:.{digits}f}{unit}"


def metric(value: float | None, digits: int = 4) -> str:
    """Return a metric with at most ``digits`` significant digits; NaN and infinities by name."""
    if value is None:
        return UNKNOWN
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value != 0 and (abs(value) >= 10**6 or abs(value) < 10**-4):
        return f"{value:.{max(0, digits - 2)}e}"
    text = f"{value:.{digits}g}"
    return f"{value:.0f}" if "e" in text else text


def count(value: float | None) -> str:
    """Return an integer with spaces between thousands: 1840 -> "1 840"."""
    return UNKNOWN if value is None else f"{value:,.0f}".replace(",", " ")


def rounded(value: float | None) -> str:
    """Return a measured number like ``count``, with two significant digits below 10: 0.423 -> "0.42", never "0"."""
    return count(value) if value is None or abs(value) >= 9.95 else metric(value, 2)


def rate(value: float | None) -> str:
    """Return bytes per second with a unit: "1.2 GiB/s"."""
    return UNKNOWN if value is None else f"{bytes_text(value)}/s"


def duration(seconds: float | None) -> str:
    """Return a duration in at most two units: 192 -> "3m12s", 7260 -> "2h01m", 0.25 -> "250 ms"."""
    if seconds is None or not math.isfinite(seconds):
        return UNKNOWN
    if 0 < seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    whole = int(seconds)
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, secs = divmod(rest, 60)
    if days:
        return f"{days}d{hours:02d}h"
    if hours:
        return f"{hours}h{minutes:02d}m"
    if minutes:
        return f"{minutes}m{secs:02d}s"
    return f"{secs}s"


def coarse_duration(seconds: float) -> str:
    """Return a duration that, from 10 minutes on, does not change on screen every second: 672 -> "11m"."""
    if seconds > 600:
        seconds -= seconds % 60
        return duration(seconds).replace("m00s", "m")
    return duration(seconds)


def clock(seconds: float | None, form: str = "%H:%M:%S") -> str:
    """Return a time (seconds since the epoch) on this machine's clock; "N/A" also for a time that no calendar can show."""
    if seconds is None:
        return UNKNOWN
    try:
        return time.strftime(form, time.localtime(seconds))
    except (OverflowError, ValueError, OSError):
        return UNKNOWN


_SIZE = r"^\s*(\d+(?:\.\d+)?|\.\d+)\s*([KMGT])(?:i?B)?\s*$"
"""Compiled when a size is first read: few commands read one."""


def parse_bytes(text: str) -> float:
    """Return bytes: "400M", "10G", "1.5 GiB", each a power of 1024 as the screens show them. The unit is required.

    Raises:
        UsageError: the text is not a size.
    """
    found = re.match(_SIZE, text, re.IGNORECASE)
    if not found:
        raise UsageError(f"{text!r} is not a size.", "Write it like 400M or 10G.")
    return float(found[1]) * 1024.0 ** (1 + "KMGT".index(found[2].upper()))


_DURATION = r"^\s*(\d+(?:\.\d+)?)\s*(ms|s|m|min|h|d)?\s*$"
_SECONDS = {"ms": 0.001, "s": 1.0, None: 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


def parse_duration(text: str) -> float:
    """Return seconds: "1", "500ms", "2s", "1.5m", "30d".

    Raises:
        UsageError: the text is not a duration.
    """
    found = re.match(_DURATION, text)
    if not found:
        raise UsageError(f"{text!r} is not a length of time.", "Write it like 1, 2s, 500ms or 5m.")
    return float(found[1]) * _SECONDS[found[2]]


def ranges(numbers: Iterable[int], *, compact: bool = False, form: Callable[[int], str] = str) -> str:
    """Return sorted numbers with consecutive ones joined: 0, 1, 2, 5, 6 -> "0-2, 5, 6".

    ``compact`` uses fewer characters, for a table cell: "0-2,5-6". ``form`` writes one number.
    """
    groups: list[list[int]] = []
    for number in sorted(set(numbers)):
        if groups and number == groups[-1][-1] + 1:
            groups[-1].append(number)
        else:
            groups.append([number])
    joined = 2 if compact else 3
    parts = [f"{form(group[0])}-{form(group[-1])}" if len(group) >= joined else ", ".join(map(form, group)) for group in groups]
    return ("," if compact else ", ").join(parts)


_SIGNALS = (
    *(
        "HUP",
        "INT",
        "QUIT",
        "ILL",
        "TRAP",
        "ABRT",
        "BUS",
        "FPE",
        "KILL",
        "USR1",
        "SEGV",
        "USR2",
        "PIPE",
        "ALRM",
        "TERM",
        "STKFLT",
    ),
    *("CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "XCPU", "XFSZ", "VTALRM", "PROF", "WINCH", "IO", "PWR", "SYS"),
)
"""Linux's signals from 1 on. Not from ``signal``: the system on which a recording is read may number them differently."""


def signal_name(number: int) -> str:
    """Return "SIGKILL" for 9, and "signal 40" for a number without a name."""
    return f"SIG{_SIGNALS[number - 1]}" if 1 <= number <= len(_SIGNALS) else f"signal {number}"
