"""What /proc shows of a process: its state, what its main thread waits for, and its processor time."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from dataclasses import dataclass

from gputop.sources.host import procfs

_CALLS = {
    "x86_64": {0: "read", 17: "read", 19: "read", 1: "write", 18: "write", 20: "write", 35: "sleep", 230: "sleep", 23: "select",
               270: "select", 2: "open", 257: "open", 74: "sync", 75: "sync", 61: "child", 247: "child"},
    "aarch64": {63: "read", 67: "read", 65: "read", 64: "write", 68: "write", 66: "write", 101: "sleep", 115: "sleep",
                72: "select", 56: "open", 82: "sync", 83: "sync", 260: "child", 95: "child"},
}  # fmt: skip
"""System calls that show what a thread waits for, by machine and number."""
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
    if state in "Tt":
        return None
    try:
        words = procfs.read_line(f"/proc/{pid}/syscall").decode(errors="replace").split()
        number, first = int(words[0]), int(words[1], 16)
    except (OSError, ValueError, IndexError):
        return None
    call = _CALLS.get(platform.machine(), {}).get(number)
    if call == "sleep" or (call == "select" and first == 0):
        return "sleeps"
    if call in ("read", "write"):
        return f"{call}s {_file(pid, first)}"
    return _WORDS.get(call or "")


def _file(pid: int, descriptor: int) -> str:
    target = ""
    with suppress(OSError):
        target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
    if descriptor == 0 and (target.startswith((_DEVICE_PREFIX, "pipe:")) or not target):
        return "its standard input"
    if target.startswith("pipe:"):
        return "a pipe"
    if target.startswith("socket:"):
        return "a socket"
    return target if target.startswith("/") else "a file"
