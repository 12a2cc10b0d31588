"""What the main thread of a process waits for, by the system call that it is in. Nothing is stopped, and no process is traced.

/proc/<pid>/syscall shows it for this user's processes, if the kernel allows it (Yama may not). Measured: 0.008 ms.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from gputop.process import DEAD_STATES, WokenBy
from gputop.sources.host import procfs

_CALLS = {
    "x86_64": {0: "read", 17: "read", 19: "read", 1: "write", 18: "write", 20: "write", 35: "sleep", 230: "sleep", 23: "select",
               270: "select", 7: "poll", 271: "poll", 232: "poll", 281: "poll", 441: "poll", 202: "lock", 45: "receive",
               47: "receive", 43: "receive", 288: "receive", 208: "disk", 426: "disk", 2: "open", 257: "open", 74: "sync",
               75: "sync", 26: "sync", 162: "sync", 277: "sync", 306: "sync", 61: "child", 247: "child", 72: "file lock",
               73: "file lock"},
    "aarch64": {63: "read", 67: "read", 65: "read", 64: "write", 68: "write", 66: "write", 101: "sleep", 115: "sleep",
                72: "select", 73: "poll", 22: "poll", 441: "poll", 98: "lock", 207: "receive", 212: "receive", 202: "receive",
                242: "receive", 4: "disk", 426: "disk", 56: "open", 82: "sync", 83: "sync", 81: "sync", 84: "sync", 227: "sync",
                267: "sync", 260: "child", 95: "child", 25: "file lock", 32: "file lock"},
}  # fmt: skip
"""System calls that show what a thread waits for, by machine and number."""
FILE_LOCK = "file lock"
_WORDS = {"sleep": "sleep", "poll": "events", "select": "events", "lock": "lock", "receive": "socket", "child": "child",
          FILE_LOCK: FILE_LOCK}  # fmt: skip
_FILE, _OUTPUT = "file", "output"
WAITS = frozenset((*_WORDS.values(), _FILE, _OUTPUT, "pipe", "terminal"))
"""What ``read_waits_for`` returns: a time ("sleep"), a pipe, socket or file, one of several events, a lock that another
thread or process holds, or until somebody reads what it prints ("output")."""

_FUTEX = {"x86_64": 202, "aarch64": 98}
_PRIVATE = 0x80
"""The flag of a futex operation that no other process can end: locks of threads, not those of multiprocessing."""
_SHARED = b" rw-s "
"""Marks memory in /proc/<pid>/maps that several processes share, such as that of a lock of multiprocessing."""
_OF_DRIVER = "cuda"
"""Begins the names of the CUDA driver's own threads, which wait for events of the GPU ("cuda-EvtHandlr")."""
_THREADS_MAX = 256
"""A process with more threads is not examined: reading them would take over 2 ms."""
_DESCRIPTORS_MAX = 256
"""Of a process with more open files, the first ones are examined."""


class Call(NamedTuple):
    """A system call that a thread is in: what it does, and its first argument."""

    name: str
    first: int


def read_call(pid: int, thread: int | None = None) -> Call | None:
    """Read the system call that a thread is in, the main thread by default; ``None`` if it runs, or is in another one.

    Raises:
        OSError: the process is gone, or the kernel does not show it to this user.
    """
    try:
        words = procfs.read_line(f"/proc/{pid}/task/{thread or pid}/syscall").split()
        name = _CALLS.get(os.uname().machine, {}).get(int(words[0]))
        return Call(name, int(words[1], 16)) if name is not None else None
    except (ValueError, IndexError):
        return None


def read_target(pid: int, descriptor: int) -> str:
    """Read what a descriptor leads to, as /proc shows it: a path, "pipe:[…]", "socket:[…]"; empty if that is hidden."""
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/fd/{descriptor}")
    return ""


def read_waits_for(pid: int) -> str | None:
    """Read what the main thread waits for, as one of ``WAITS``; ``None`` if it runs, or waits for something else.

    Raises:
        OSError: as from ``read_call``.
    """
    call = read_call(pid)
    if call is None:
        return None
    if call == ("select", 0):
        return "sleep"
    if call.name in ("read", "write"):
        target = read_target(pid, call.first)
        kind = next((kind for kind in ("pipe", "socket") if target.startswith(f"{kind}:")), None)
        if call.name == "write" and call.first in (1, 2) and (kind is not None or target.startswith("/dev/")):
            return _OUTPUT
        return kind or ("terminal" if target.startswith("/dev/") else _FILE if target.startswith("/") else None)
    return _WORDS.get(call.name, _FILE)


def read_lock_holder(pid: int) -> int | None:
    """Return the process that holds the file lock that a process waits for; None if it has ended, or on another machine.

    /proc/locks lists all locks of the machine: ask only about a process that waits for one. Measured: 0.02 ms.
    """
    holder = None
    with suppress(OSError, ValueError, IndexError):
        for line in procfs.read_bytes("/proc/locks").splitlines():
            words = line.split()
            if words[1] != b"->":
                holder = int(words[4])
            elif int(words[5]) == pid:
                return holder if holder and holder > 0 and holder != pid else None
    return None


def read_all_locked(pid: int) -> bool:
    """Return whether every thread waits for another thread of this process. Measured: 0.008 ms a thread.

    The main thread must wait without a time limit: with one, it may be polling for something outside. Other threads may have a
    limit, as those of progress bars do. Threads of the CUDA driver do not count. False with more than ``_THREADS_MAX`` threads,
    and where the numbers of system calls are unknown.

    Raises:
        OSError: as from ``read_call``.
    """
    threads, futex = procfs.list_threads(pid), _FUTEX.get(os.uname().machine)
    if futex is None or not 0 < len(threads) <= _THREADS_MAX:
        return False
    return all(
        _is_locked(pid, thread, futex) or (procfs.read_thread_name(pid, thread) or "").startswith(_OF_DRIVER)
        for thread in threads
    )


def read_woken_by(pid: int) -> WokenBy:
    """Return what may end the main thread's wait for a lock, by its other threads and child processes.

    "nothing": it and all other threads wait for threads of this process, and it has no child process. "time limit": the same,
    but one of the others only waits for a time, as a progress bar's or a timer does. "others": anything else, also a lock that
    other processes may have, more than ``_THREADS_MAX`` threads, and where the numbers of system calls are unknown or the
    children are not listed. Threads of the CUDA driver do not count.

    Raises:
        OSError: as from ``read_call``.
    """
    threads, futex = procfs.list_threads(pid), _FUTEX.get(os.uname().machine)
    if futex is None or not 0 < len(threads) <= _THREADS_MAX or any(map(_is_alive, _children(pid, threads))):
        return "others"
    if _waits_inside(pid, pid, futex) is None:
        return "others"  # another process may have the lock
    woken_by: WokenBy = "nothing"
    for thread in threads:
        if thread == pid or (procfs.read_thread_name(pid, thread) or "").startswith(_OF_DRIVER):
            continue
        is_limited = _waits_inside(pid, thread, futex)
        if is_limited is None:
            return "others"
        if is_limited:
            woken_by = "time limit"
    return woken_by


def read_child_woken_by(pid: int) -> WokenBy:
    """Return what may end the main thread's wait for a child process to end.

    "nothing": a child writes into a full pipe, which only this process and its children could read, and all of their other
    threads wait, too: for threads of their process, or for a lock that only these processes have, such as that of the pipe.
    ``join`` before ``get`` of a queue does that, and ``wait`` before the output of a program is read. "time limit": the same,
    but another thread of this process waits only for a time. "others": anything else, also if other processes have the pipe.
    Measured: 0.1 ms, and 4 ms more if a child waits for such a lock.

    Raises:
        OSError: as from ``read_call``.
    """
    threads = procfs.list_threads(pid)
    call, children = read_call(pid), [child for child in _children(pid, threads) if _is_alive(child)]
    if call is None or call.name != "child" or not children or len(threads) > _THREADS_MAX:
        return "others"
    others = [_waits_inside(pid, thread, _FUTEX[os.uname().machine]) for thread in threads if thread != pid]
    stat = procfs.read_stat(pid)
    parent = stat.ppid if stat is not None else 0
    pipes: set[str] = set()
    locks: dict[int, bool] = {}
    for child in children:
        filled = _fills_pipes(child, parent, locks) if child > 0 else None
        # What else has started the same way inherits the pipe, and may read from it.
        if filled is None or any(_is_alive(each) for each in _children(child, procfs.list_threads(child))):
            return "others"
        pipes |= filled
    if not pipes or not pipes <= _readable_pipes(pid) - _readable_pipes(parent):
        return "others"
    return "others" if None in others else "time limit" if True in others else "nothing"


def _fills_pipes(pid: int, parent: int, locks: dict[int, bool]) -> set[str] | None:
    """Return the pipe into which one thread of a process writes while all others wait for threads; None if they do not.

    Empty for a process that writes into none because it waits, without a time limit, for its turn: for a lock that it shares
    with other processes, but not with ``parent``, which started them all. ``locks`` keeps by address which locks that is true
    of: what one process has forked has a lock at one address.
    """
    pipes: set[str] = set()
    threads, futex = procfs.list_threads(pid), _FUTEX[os.uname().machine]
    if len(threads) > _THREADS_MAX:
        return None
    is_limited = False
    for thread in threads:
        limited = _waits_inside(pid, thread, futex)
        if limited is not None:
            is_limited = is_limited or limited
            continue
        call = read_call(pid, thread)
        target = read_target(pid, call.first) if call is not None and call.name == "write" and not pipes else ""
        if target.startswith("pipe:"):
            pipes.add(target)
        elif not _waits_for_shared(pid, thread, futex, parent, locks):
            return None
    return None if is_limited and not pipes else pipes


def _waits_for_shared(pid: int, thread: int, futex: int, parent: int, locks: dict[int, bool]) -> bool:
    """Return whether a thread waits without a time limit for a lock of several processes, which ``parent`` does not have."""
    words = procfs.read_line(f"/proc/{pid}/task/{thread}/syscall").split()
    if len(words) < 5 or words[0] != b"%d" % futex or int(words[4], 16):
        return False
    address = int(words[1], 16)
    if address not in locks:
        file = _file_at(pid, address)
        locks[address] = file is not None and not _maps(parent, file)
    return locks[address]


def _maps(pid: int, file: bytes) -> bool:
    with suppress(OSError):
        return file in procfs.read_bytes(f"/proc/{pid}/maps")
    return False


def _file_at(pid: int, address: int) -> bytes | None:
    """Return the device and number of the shared file at an address, as in /proc/<pid>/maps; None without one."""
    for line in procfs.read_bytes(f"/proc/{pid}/maps").splitlines():
        if _SHARED not in line:
            continue
        span, _, _, device, number = line.split(maxsplit=5)[:5]
        first, last = span.split(b"-")
        if int(first, 16) <= address < int(last, 16):
            return b" %b %b " % (device, number)
    return None


def _readable_pipes(pid: int) -> set[str]:
    """Return the pipes that a process can read from."""
    found = set()
    with suppress(OSError, ValueError, IndexError):
        for descriptor in map(int, os.listdir(f"/proc/{pid}/fd")[:_DESCRIPTORS_MAX]):
            target = read_target(pid, descriptor)
            if target.startswith("pipe:"):
                flags = procfs.read_bytes(f"/proc/{pid}/fdinfo/{descriptor}").partition(b"flags:")[2].split()[0]
                if int(flags, 8) & os.O_ACCMODE != os.O_WRONLY:
                    found.add(target)
    return found


def _children(pid: int, threads: Iterable[int]) -> list[int]:
    """Return the processes that the threads have started; -1 stands for some that the kernel does not list."""
    try:
        lines = [procfs.read_bytes(f"/proc/{pid}/task/{thread}/children") for thread in threads]
    except OSError:
        return [-1]
    return [int(word) for line in lines for word in line.split()]


def _is_alive(pid: int) -> bool:
    stat = procfs.read_stat(pid) if pid > 0 else None
    return pid < 0 or (stat is not None and stat.state not in DEAD_STATES)


def _is_locked(pid: int, thread: int, futex: int) -> bool:
    """Return whether a thread waits for another one of its process; the main thread only if it waits without a time limit."""
    is_limited = _waits_inside(pid, thread, futex)
    return is_limited is not None and not (is_limited and thread == pid)


def _waits_inside(pid: int, thread: int, futex: int) -> bool | None:
    """Return whether a thread waits with a time limit for another one of its process; None if it does not wait for one."""
    words = procfs.read_line(f"/proc/{pid}/task/{thread}/syscall").split()
    if len(words) < 5 or words[0] != b"%d" % futex:
        return None
    _, _, operation, _, limit = (int(word, 16) for word in words[:5])
    return bool(limit) if operation & _PRIVATE else None
