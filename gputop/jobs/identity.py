"""Identifies processes beyond their PID, and finds those that carry a job's mark. Reads /proc; standard library only.

The kernel reuses PIDs and starts again at boot. Therefore a boot id, a PID and a start time (field 22 of /proc/<pid>/stat)
identify a process.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

JOB_VARIABLE = "GPUTOP_JOB_ID"
_PROC = Path("/proc")


def boot_id() -> str | None:
    """Return the id of the current boot; None if the kernel provides none."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


class Stat(NamedTuple):
    """What /proc says about a process that is not a zombie."""

    parent: int
    session: int
    start_ticks: int
    """When it started, in clock ticks since boot."""


def stat_fields(pid: int) -> Stat | None:
    """Return the parent, session and start of a process; None if it is gone or a zombie."""
    try:
        stat = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The name (field 2) may contain spaces and parentheses: count from the last parenthesis.
    fields = stat[stat.rindex(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else Stat(int(fields[1]), int(fields[3]), int(fields[19]))


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None if it is gone or a zombie."""
    found = stat_fields(pid)
    return None if found is None else found.start_ticks


def started_at(ticks: int) -> float:
    """Return the wall clock time (seconds since the epoch) that is ``ticks`` after boot."""
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) + ticks / os.sysconf("SC_CLK_TCK")


def describe(pid: int) -> dict[str, int | str | None]:
    """Return what identifies a process, as JSON data for ``is_alive``."""
    return {"pid": pid, "start_ticks": start_ticks(pid), "boot_id": boot_id()}


def is_alive(kept: Any) -> bool:
    """Return whether the process that ``describe`` identified still runs, on this boot of this machine.

    ``kept`` may be anything that was read from a file.
    """
    if not isinstance(kept, Mapping) or kept.get("start_ticks") is None or kept.get("boot_id") != boot_id():
        return False
    pid = kept.get("pid")
    return isinstance(pid, int) and start_ticks(pid) == kept["start_ticks"]


def marked(job_id: str) -> list[int]:
    """Return the PIDs of the processes that were started with the job's id in their environment, except zombies."""
    mark = f"{JOB_VARIABLE}={job_id}".encode()
    own = os.getpid()
    return [pid for pid in pids() if pid != own and _carries(pid, mark) and start_ticks(pid) is not None]


def signal_marked(job_id: str, number: signal.Signals) -> list[int]:
    """Signal every process that carries the job's mark; return their PIDs."""
    mark = f"{JOB_VARIABLE}={job_id}".encode()
    found = marked(job_id)
    for pid in found:
        with contextlib.suppress(OSError):
            _signal_if(pid, mark, number)
    return found


def _signal_if(pid: int, mark: bytes, number: signal.Signals) -> None:
    """Signal ``pid`` only if it still carries the mark: the PID may have been reused since it was found."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        if _carries(pid, mark):  # Linux before 5.3 has no pidfd; a race of microseconds remains
            os.kill(pid, number)
        return
    try:
        if _carries(pid, mark):
            signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)


def pids() -> list[int]:
    """Return the PIDs of all processes."""
    try:
        return [int(name) for name in os.listdir(_PROC) if name.isdigit()]
    except OSError:
        return []


def _carries(pid: int, mark: bytes) -> bool:
    try:
        return mark in (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:  # gone, or another user's
        return False
