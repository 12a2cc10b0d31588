"""Follows output that a run prints into a pipe: to the files that ``tee`` writes, or that a filter behind the pipe prints to.

A process reads a pipe if its standard input has the pipe's inode, which nothing else has. Only the links in /proc/<pid>/fd are
read, and only those of this user's processes.
"""

from __future__ import annotations

import math
import os
import stat
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

from gputop.sources.host import procfs

Identity = tuple[int, int]
"""Device and inode."""
HOPS = 4
"""Maximum number of filters between a run and its file: ``train.py | ts | grep -v warn | tee log``."""
FILES_PER_TEE = 8
"""How many of the files that one ``tee`` writes are followed."""
_TEE = "tee"
_FILTERS = frozenset(
    (
        *(_TEE, "ts", "cat", "grep", "egrep", "sed", "awk", "gawk", "mawk", "tr", "cut", "col", "fold", "ccze"),
        *("rotatelogs", "cronolog", "multilog", "svlogd"),
    )
)
"""Programs that pass on what they read, or part of it. Any other program prints output of its own."""


class Pipelines:
    """The readers of this user's pipes at one moment. Nothing is read until a pipe is followed."""

    def __init__(self) -> None:
        self._readers: dict[Identity, list[int]] = {}
        self._links: dict[Identity, tuple[str, ...]] = {}

    def links_behind(self, pipe: Identity) -> tuple[str, ...]:
        """Return links in /proc/<pid>/fd to what the readers of a pipe write to: files, terminals, sockets.

        All of them get the same lines. Files that tee opened itself come before its standard output.
        """
        if pipe not in self._links:  # the ranks of a run often print to one
            self._links[pipe] = tuple(dict.fromkeys(self._behind(pipe, HOPS)))
        return self._links[pipe]

    def _behind(self, pipe: Identity, hops: int) -> Iterator[str]:
        if pipe not in self._readers:
            self._readers[pipe] = _shared.of(pipe)
        for pid in self._readers[pipe]:
            name = procfs.read_thread_name(pid, pid)
            if name not in _FILTERS:
                continue
            for link in (*(_written_by_tee(pid) if name == _TEE else ()), f"/proc/{pid}/fd/1"):
                found = identity_of_pipe(link)
                if found is None:
                    yield link
                elif hops > 1:
                    yield from self._behind(found, hops - 1)


def identity_of_pipe(link: str) -> Identity | None:
    """Return the identity of the pipe that a link in /proc/<pid>/fd leads to; None if it leads elsewhere or is gone."""
    try:
        found = os.stat(link)
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISFIFO(found.st_mode) else None


SHARED_S = 0.9
"""How long the searches of several runs share one list of all processes, of which there may be hundreds."""
KNOWN_S = 10.0
"""How often to list all processes while the known reader still reads the pipe, which one system call shows."""
UNREAD_MAX_S = 30.0
PATIENCE = 5
"""If no process has the pipe as its standard input, as with a notebook, search again after a fifth of the time spent in vain so
far, at most ``UNREAD_MAX_S``: a shell starts both ends of a pipe together."""


class SharedReaders:
    """The readers of this user's pipes when all processes were last listed. Safe on any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._scanned_s = -math.inf
        self._readers: dict[Identity, list[int]] = {}
        self._asked: dict[Identity, tuple[float, float]] = {}
        """When a pipe was first and last asked for."""

    def of(self, pipe: Identity) -> list[int]:
        """Return the processes that have the pipe as their standard input."""
        with self._lock:
            now_s = time.monotonic()
            first_s = self._asked.get(pipe, (now_s, now_s))[0]
            self._asked[pipe] = first_s, now_s
            found = self._reading(pipe)
            known_s = KNOWN_S if found else min(UNREAD_MAX_S, max(SHARED_S, (now_s - first_s) / PATIENCE))
            if now_s - self._scanned_s > known_s:
                self._scanned_s, self._readers = now_s, _readers_of_pipes()
                self._asked = {each: at for each, at in self._asked.items() if now_s - at[1] < 2 * UNREAD_MAX_S}
                found = self._reading(pipe)
            return found

    def _reading(self, pipe: Identity) -> list[int]:
        """Return the known readers that still read the pipe: a PID may belong to another process by now."""
        return [pid for pid in self._readers.get(pipe, ()) if identity_of_pipe(f"/proc/{pid}/fd/0") == pipe]


_shared = SharedReaders()


def _readers_of_pipes() -> dict[Identity, list[int]]:
    found: dict[Identity, list[int]] = {}
    user = os.geteuid()
    for pid in sorted(procfs.list_pids()):
        with suppress(OSError):
            if os.stat(f"/proc/{pid}").st_uid != user:
                continue
            pipe = identity_of_pipe(f"/proc/{pid}/fd/0")
            if pipe is not None:
                found.setdefault(pipe, []).append(pid)
    return found


def _written_by_tee(pid: int) -> list[str]:
    """Return the descriptors that tee opened for writing."""
    found = []
    with suppress(OSError):
        for number in sorted(int(name) for name in os.listdir(f"/proc/{pid}/fd"))[: FILES_PER_TEE + 3]:
            if number > 2 and _is_write_only(pid, number):
                found.append(f"/proc/{pid}/fd/{number}")
    return found


def _is_write_only(pid: int, descriptor: int) -> bool:
    try:
        lines = procfs.read_bytes(f"/proc/{pid}/fdinfo/{descriptor}").splitlines()
    except OSError:
        return False
    flags = next((line.split()[1] for line in lines if line.startswith(b"flags:")), b"0")
    return int(flags, 8) & os.O_ACCMODE == os.O_WRONLY
