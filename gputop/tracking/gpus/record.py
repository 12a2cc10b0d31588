"""The files in which the readings of a run's GPUs are kept: one per GPU, in the run's directory, next to its journals.

A line is a JSON array: time, index, utilization, used memory, power; null where a value is unknown. Every viewer writes, and so
does the training itself: a file written a moment ago needs no further line, so writers take turns without coordination. The
older a run, the rarer its lines: a training of a year takes less than a MiB per GPU.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from gputop.places import open_regular
from gputop.tracking.journal import size_limit
from gputop.wire import FormatError, parse_json

EVERY_S = 5.0
"""The shortest time between two lines: about 7 bytes per second."""
LINES_PER_AGE = 700
"""A line is due once the run's age has grown by this fraction: 700 lines for the first hour, 700 for each e-fold growth."""
DUE_SHARE = 0.9
"""Tolerance, so that a writer that wakes a little early does not miss its turn."""
FILE_BYTES_MAX = 4 << 20
"""A larger file is not gputop's, or clocks were wrong: nothing is added to it, and the rest of it is not read."""
SUFFIX = ".gpu"
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,120}\.gpu")


class Reading(NamedTuple):
    """What one GPU did at a time (wall clock, seconds since the epoch); ``number`` is its index. Unknown values are None."""

    uuid: str
    number: int | None
    time: float
    utilization_percent: float | None = None
    memory_used_bytes: int | None = None
    power_w: float | None = None


def interval_s(began: float) -> float:
    """Return the seconds between two lines of a run that began at this time (wall clock)."""
    return max(EVERY_S, (time.time() - began) / LINES_PER_AGE)


def is_due(directory: Path, uuid: str, began: float) -> bool:
    """Return whether a line is due for some GPU of the run in ``directory``. Checks one file."""
    path = _path(directory, uuid)
    if path is None:
        return False
    try:
        found = path.lstat()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    recent = 0 <= time.time() - found.st_mtime < DUE_SHARE * interval_s(began)
    return stat.S_ISREG(found.st_mode) and found.st_size < FILE_BYTES_MAX and not recent


def add(directory: Path, reading: Reading, began: float) -> bool:
    """Add a line if one is due; return whether it was written. Never raises: nothing depends on it."""
    path = _path(directory, reading.uuid)
    _, number, at, *values = reading
    if path is None or values == [None] * len(values) or not is_due(directory, reading.uuid, began):
        return False
    line = [round(at, 1), number, *(round(value, 1) if isinstance(value, float) else value for value in values)]
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        handle = os.open(path, flags, 0o600)
    except OSError:  # the run's directory is gone, or read-only
        return False
    try:
        raw = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        size_limit.check_append(handle, len(raw))
        os.write(handle, raw)
        return True
    except OSError:  # a full disk, or a limit
        return False
    finally:
        os.close(handle)


def read(directory: Path) -> dict[str, list[Reading]]:
    """Return the readings of each GPU by UUID, in order of time. Damaged lines are skipped."""
    found: dict[str, list[Reading]] = {}
    with suppress(OSError):
        for path in sorted(directory.iterdir()):
            if FILE_NAME.fullmatch(path.name) and (readings := _readings(path)):
                found[readings[0].uuid] = readings
    return found


def _path(directory: Path, uuid: str) -> Path | None:
    name = f"{uuid}{SUFFIX}"
    return directory / name if FILE_NAME.fullmatch(name) else None


def _readings(path: Path) -> list[Reading]:
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_uid != os.geteuid():
                return []
            lines = file.read(FILE_BYTES_MAX).splitlines()
    except OSError:
        return []
    found = [reading for line in lines if (reading := _reading(path.name.removesuffix(SUFFIX), line)) is not None]
    return sorted(found, key=lambda reading: reading.time)


def _reading(uuid: str, line: bytes) -> Reading | None:
    try:
        parts = parse_json(line)
    except FormatError:
        return None
    if not isinstance(parts, list) or len(parts) < 5:
        return None
    at, number, utilization, memory, power = map(_number, parts[:5])
    if at is None:
        return None
    used = None if memory is None else int(memory)
    return Reading(uuid, None if number is None else int(number), at, utilization, used, power)


def _number(value: object) -> float | None:
    """Return a finite number that is not negative, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e18:
        return None
    return float(value) if math.isfinite(value) else None
