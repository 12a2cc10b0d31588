"""Who a process is beyond its number, and which processes carry a job's mark. Reads /proc; standard library alone.

A PID is given to another process once its owner has ended, and starts again at boot. A process is therefore known by
boot id, PID and start time (field 22 of /proc/<pid>/stat).
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

JOB_VARIABLE = "GPUTOP_JOB_ID"
_PROC = Path("/proc")


def boot_id() -> str | None:
    """Return the id of this boot of the machine, None where the kernel tells none."""
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None when it is gone or a zombie."""
    try:
        stat = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    # The name, field 2, may hold spaces and brackets: count from its last bracket.
    fields = stat[stat.rindex(b")") + 2 :].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def describe(pid: int) -> dict[str, int | str | None]:
    """Return what a file keeps of a process, for ``lives``."""
    return {"pid": pid, "start_ticks": start_ticks(pid), "boot_id": boot_id()}


def lives(kept: Mapping[str, Any] | None) -> bool:
    """Say whether the process that a file tells of still runs, on this boot of this machine."""
    if not kept or kept.get("start_ticks") is None or kept.get("boot_id") != boot_id():
        return False
    return bool(start_ticks(kept["pid"]) == kept["start_ticks"])


def marked(job_id: str) -> list[int]:
    """Return the processes that carry the job's id in the environment they were started with, zombies left out."""
    mark = f"{JOB_VARIABLE}={job_id}".encode()
    own = os.getpid()
    return [pid for pid in _pids() if pid != own and _carries(pid, mark) and start_ticks(pid) is not None]


def signal_marked(job_id: str, number: signal.Signals) -> list[int]:
    """Signal every process that carries the job's mark; return those that were there."""
    mark = f"{JOB_VARIABLE}={job_id}".encode()
    found = marked(job_id)
    for pid in found:
        with contextlib.suppress(OSError):
            _signal_if(pid, mark, number)
    return found


def _signal_if(pid: int, mark: bytes, number: signal.Signals) -> None:
    """Signal ``pid`` only if it is, now, a process with the mark: the number may have changed hands since it was found."""
    try:
        handle = os.pidfd_open(pid)
    except OSError:
        if _carries(pid, mark):  # a kernel before 5.3 has no handles; what remains is a race of microseconds
            os.kill(pid, number)
        return
    try:
        if _carries(pid, mark):
            signal.pidfd_send_signal(handle, number)
    finally:
        os.close(handle)


def _pids() -> list[int]:
    try:
        return [int(name) for name in os.listdir(_PROC) if name.isdigit()]
    except OSError:
        return []


def _carries(pid: int, mark: bytes) -> bool:
    try:
        return mark in (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:  # gone, or another user's
        return False
