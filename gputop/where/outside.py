"""What /proc shows of a process: its state, what its main thread waits for, and its processor time."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from gputop.sources.host import procfs, waits

_WORDS = {"open": "opens a file", "sync": "writes files to the disk", "child": "waits for a child process"}
_DEVICE_PREFIX = "/dev/"


@dataclass(frozen=True, slots=True)
class Outside:
    """One reading of a process. ``ticks``: its processor time, in kernel ticks."""

    state: str
    start_ticks: int
    ticks: int
    doing: str | None
    kernel_function: str | None


def look(pid: int) -> Outside | None:
    """Read a process; None if it is gone, or a zombie."""
    try:
        stat = procfs.read_stat(pid)
    except PermissionError:
        return None
    if stat is None or stat.state in procfs.DEAD_STATES:
        return None
    return Outside(stat.state, stat.start_ticks, stat.cpu_ticks, _doing(pid, stat.state), _wait_channel(pid))


def _wait_channel(pid: int) -> str | None:
    try:
        name = procfs.read_line(f"/proc/{pid}/wchan").decode(errors="replace").strip("\0\n ")
    except OSError:
        return None
    return name if name not in ("", "0") else None


def _doing(pid: int, state: str) -> str | None:
    """Return what the main thread waits for in the kernel; None if it runs, or if the system does not show it."""
    call = None
    with suppress(OSError):
        call = waits.read_call(pid) if state not in "Tt" else None
    if call is None:
        return None
    if call.name == "sleep" or call == ("select", 0):
        return "sleeps"
    if call.name in ("read", "write"):
        return f"{call.name}s {_file(pid, call.first)}"
    if call.name == "file lock":
        return f"waits for the lock of {_file(pid, call.first)}"
    return _WORDS.get(call.name)


def _file(pid: int, descriptor: int) -> str:
    target = waits.read_target(pid, descriptor)
    if descriptor == 0 and (target.startswith((_DEVICE_PREFIX, "pipe:")) or not target):
        return "its standard input"
    if target.startswith("pipe:"):
        return "a pipe"
    if target.startswith("socket:"):
        return "a socket"
    return target if target.startswith("/") else "a file"
