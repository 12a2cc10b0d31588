"""Real processes for tests of code that reads /proc: small Pythons that map a file named like PyTorch's library.

Each is killed with its children at the end of its test, and ends by itself when its parent is gone.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from gputop.sources.host import procfs
from tests.patience import DEADLINE_S

T = TypeVar("T")

PRELUDE = """
import mmap, os, sys, threading, time
parent, kept = os.getppid(), []
for path in filter(None, os.environ.get("TEST_MAPS", "").split(os.pathsep)):
    with open(path, "rb") as file:
        kept.append(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
until = time.monotonic() + 120
def alive():
    return os.getppid() == parent and time.monotonic() < until
def work():
    while alive():
        sum(range(20000))
def train():
    while alive():
        for _ in range(10):
            sum(range(20000))
        time.sleep(0.01)
def idle():
    while alive():
        time.sleep(0.05)
def say(*words):
    print(*words, flush=True)
"""
BUSY = "say('ready'); work()"
"""Takes all of a core that it gets. ``train()`` leaves most of one to other tests."""
IDLE = "say('ready'); idle()"
MARKERS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


class Processes:
    """Starts processes and ends them all."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._started: list[subprocess.Popen[str]] = []

    def library(self, name: str = "libtorch_cpu.so") -> str:
        path = self.folder / name
        path.write_bytes(b"not really\n")
        return str(path)

    def start(
        self, code: str = IDLE, *, torch: bool = True, argv: tuple[str, ...] = (), **environment: str
    ) -> subprocess.Popen[str]:
        """Start a Python that runs PRELUDE and ``code``, and wait for the first line that it prints."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if name not in MARKERS and not name.startswith(("GPUTOP_", "TORCHELASTIC_"))
        }
        if torch:
            kept["TEST_MAPS"] = self.library()
        command = [sys.executable, *argv] if argv else [sys.executable, "-c", PRELUDE + code]
        process = subprocess.Popen(
            command,
            env=kept | environment,
            stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def ready(self, code: str = IDLE, **options: object) -> tuple[subprocess.Popen[str], list[str]]:
        """Start a process and return it, with the words of its first line."""
        process = self.start(code, **options)  # type: ignore[arg-type]
        assert process.stdout is not None
        return process, process.stdout.readline().split()

    def script(self, name: str, code: str) -> str:
        """Write a Python file whose name makes it look like a launcher."""
        path = self.folder / name
        path.write_text(PRELUDE + code)
        return str(path)

    def end(self) -> None:
        for process in self._started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # with the processes that it started itself
        for process in self._started:
            process.wait()
            if process.stdout is not None:
                process.stdout.close()


def eventually(read: Callable[[], T], good: Callable[[T], object], pause_s: float = 0.15) -> T:
    """Read until the reading passes; fail with the last reading if it never does."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        value = read()
        if good(value):
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"never came: {value!r}")
        time.sleep(pause_s)


@contextmanager
def as_nobody() -> Iterator[None]:
    """Drop root's rights for a moment (only root can), then restore them."""
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


def see_only_own_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let readings list what descends from this process: not this process, and nothing that other tests start."""
    list_pids = procfs.list_pids
    monkeypatch.setattr(procfs, "list_pids", lambda: descendants(list_pids()))


def descendants(pids: set[int]) -> set[int]:
    """Return those of ``pids`` that descend from this process, without those of tests that run at the same time."""
    parents = {}
    for pid in pids:
        try:
            parents[pid] = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
    found = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {os.getpid()}
