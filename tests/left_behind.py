"""Ends all that a test process has started once that process is gone, however it ended: a signal, or out of memory.

Whatever it starts inherits a word in its environment, also in a session of its own and after its parent has ended. A watcher,
which is no child of the test process, waits for that process to end and kills what has this word, and what descends from it.
Runs as a script of its own, so it imports only the standard library.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
import uuid
from contextlib import suppress
from pathlib import Path

NAME = "STARTED_BY_TESTS"
"""What is copied to other processes' environments keeps it: tests drop names that begin with ``GPUTOP_``."""
_PASSES_MAX, _PAUSE_S = 50, 0.1
"""How often to look for more: what starts others may do so while it is being ended."""


def watch() -> None:
    """Start the watcher of this process, and let whatever this process starts inherit the word."""
    os.environ[NAME] = uuid.uuid4().hex
    command = [sys.executable, "-I", "-S", __file__, str(os.getpid()), os.environ[NAME]]
    nowhere = subprocess.DEVNULL
    subprocess.run(command, env={}, stdin=nowhere, stdout=nowhere, stderr=nowhere, check=True, start_new_session=True)


def _wait(pid: int, word: str) -> None:
    """Wait in a process of its own until a process has ended, and end what it has started."""
    watched = os.pidfd_open(pid)
    if os.fork():
        return
    select.select([watched], [], [])
    for _ in range(_PASSES_MAX):
        found = _started(f"{NAME}={word}".encode())
        if not found:
            return
        for each in found:
            with suppress(OSError):
                os.kill(each, signal.SIGKILL)
        time.sleep(_PAUSE_S)


def _started(word: bytes) -> set[int]:
    """Return the living processes that have the word in their environment, and what descends from them."""
    found, parents = set(), {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError, IndexError):
            pid = int(entry.name)
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            if state not in "ZX":
                parents[pid] = int(parent)
                if word in (entry / "environ").read_bytes().split(b"\0"):
                    found.add(pid)
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}


if __name__ == "__main__":
    _wait(int(sys.argv[1]), sys.argv[2])
