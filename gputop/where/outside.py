"""What /proc shows of a process: its state, what its main thread waits for, and its processor time.

A main thread that waits for events while it has loader workers waits for them, as torch's DataLoader does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from gputop.groups import WORKER_NAME
from gputop.process import DEAD_STATES
from gputop.sources.host import procfs, waits
from gputop.sources.host.workers import read_children
from gputop.whereabouts.records import PlaceState

_WORDS = {"open": "opens a file", "sync": "writes files to the disk", "child": "waits for a child process"}
_WORKER_WAITS = {"lock": "waits for a lock", "poll": "waits for work", "receive": "waits for a socket"}
_PIPE, _SOCKET = "a pipe", "a socket"
_DEVICE_PREFIX = "/dev/"
HELD_STATES: Mapping[str, PlaceState] = {"T": "stopped", "t": "traced", "D": "disk"}
"""State letter in /proc/PID/stat -> where a process is that cannot run now, and so cannot answer."""


@dataclass(frozen=True, slots=True)
class Outside:
    """One reading of a process. ``ticks``: its processor time, in kernel ticks; ``turns``: how often its main thread ran."""

    state: str
    start_ticks: int
    ticks: int
    doing: str | None
    kernel_function: str | None
    turns: int | None = None


def observe(pid: int) -> Outside | None:
    """Read a process; None if it is gone, or a zombie."""
    try:
        stat = procfs.read_stat(pid)
    except PermissionError:
        return None
    if stat is None or stat.state in DEAD_STATES:
        return None
    turns = None
    with suppress(PermissionError):
        turns = procfs.read_turns(pid)
    return Outside(stat.state, stat.start_ticks, stat.cpu_ticks, _doing(pid, stat.state), _wait_channel(pid), turns)


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
        target = _file(pid, call.first)
        # Torch reads a batch's tensors from the worker that made it.
        return (_workers(pid, held=True) if target in (_PIPE, _SOCKET) else None) or f"{call.name}s {target}"
    if call.name == "file lock":
        return f"waits for the lock of {_file(pid, call.first)}"
    if call.name == "poll":
        return _workers(pid)
    return _WORDS.get(call.name)


def _workers(pid: int, held: bool = False) -> str | None:
    """Return that a process waits for its loader workers, and what these do; None if it has none.

    ``held``: also None if each of them can run.
    """
    stuck = False
    doing: Counter[str] = Counter()
    pids: dict[str, int] = {}
    for child in read_children(pid):
        with suppress(OSError):
            stat = procfs.read_stat(child)
            if stat is not None and stat.comm == WORKER_NAME:
                words = _worker(child, stat.state)
                stuck = stuck or stat.state in (*DEAD_STATES, "T", "t")
                doing[words] += 1
                pids.setdefault(words, child)
    if not doing or (held and not stuck):
        return None
    total = sum(doing.values())
    if total == 1:
        ((words, worker),) = pids.items()
        return f"waits for its loader worker {worker}, which {words}"
    told = (
        f"{worker} {words}" if doing[words] == 1 else f"{doing[words]} like {worker}, which {words}"
        for words, worker in pids.items()
    )
    return f"waits for its {total} loader workers: {'; '.join(told)}"


def _worker(pid: int, state: str) -> str:
    if state in DEAD_STATES:
        return "has died"
    known = {"T": "is stopped", "t": "is held by a tracer", "D": "waits for a disk", "R": "runs"}.get(state) or _doing(
        pid, state
    )
    if known is not None:
        return known
    with suppress(OSError):
        call = waits.read_call(pid)
        if call is not None and call.name in _WORKER_WAITS:
            return _WORKER_WAITS[call.name]
    channel = _wait_channel(pid)
    return f"waits in {channel}" if channel is not None else "waits"


def _file(pid: int, descriptor: int) -> str:
    target = waits.read_target(pid, descriptor)
    if descriptor == 0 and (target.startswith((_DEVICE_PREFIX, "pipe:")) or not target):
        return "its standard input"
    if target.startswith("pipe:"):
        return _PIPE
    if target.startswith("socket:"):
        return _SOCKET
    return target if target.startswith("/") else "a file"
