"""The command that reaches one host: started when its turn comes, and ended with all that it has started.

Streams and errands use it; what they read from it is their own matter.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Collection, Iterator
from typing import TypeVar

from gputop.agent.lines import end_group
from gputop.hosts.state import Failure
from gputop.hosts.transport import Transport

CONNECTING_MOST = 8
"""Connections that are begun at a time. sshd turns some away from 10 on (MaxStartups 10:30:100)."""
CLOSE_S, POLL_S = 0.5, 0.02
"""How long commands may take to end before they are killed, and how often to check."""
T = TypeVar("T")
_OPEN: set[int] = set()
"""The commands that run now, by PID: each leads a process group."""


class Connection:
    """Runs one command at a time. ``close`` may be called in any thread, and leaves no process behind."""

    def __init__(self, host: str, transport: Transport, turn: threading.Semaphore) -> None:
        """``turn`` is shared by all that connect."""
        self.host = host
        self.transport = transport
        self.closed = threading.Event()
        self.process: subprocess.Popen[bytes] | None = None
        self._turn = turn
        self._lock = threading.Lock()
        """Held while the process is replaced or ended, so that ``close`` leaves none behind."""

    def use(
        self,
        read: Callable[[subprocess.Popen[bytes], Callable[[], object], Callable[[], object]], T],
        begin: Callable[[], object] = lambda: None,
    ) -> T | Failure | None:
        """Start the command when its turn comes, and return what ``read`` returns.

        Args:
            read: gets the command, a function to call once it is connected, and one to call if that takes long, which lets the
                next host connect.
            begin: is called when the turn has come.

        Returns:
            The result of ``read``; a ``Failure`` if the command cannot be started; None if this was closed first.
        """
        while not self._turn.acquire(timeout=0.2):
            if self.closed.is_set():
                return None
        with contextlib.ExitStack() as turn:
            turn.callback(self._turn.release)
            begin()
            self.transport.look_up(self.host)  # before the lock, for which ``close`` waits
            try:
                with self._lock:
                    if self.closed.is_set():
                        return None
                    process = self.process = self.transport.open(self.host)
                    _OPEN.add(process.pid)
            except OSError as error:
                return Failure("failed", f"{self.transport.template[0]} cannot be started: {error.strerror}.")
            try:
                keeps_turn = self.transport.is_behind_another(self.host)
                return read(process, turn.close, (lambda: None) if keeps_turn else turn.close)
            finally:
                with self._lock:
                    end_group(process)
                    _OPEN.discard(process.pid)
                    for pipe in (process.stdin, process.stdout, process.stderr):
                        if pipe is not None:
                            with contextlib.suppress(OSError):
                                pipe.close()

    def write(self, line: bytes) -> None:
        """Write a line to the command, if it is still there."""
        process = self.process
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError, ValueError):
                os.write(process.stdin.fileno(), line)

    @property
    def is_open(self) -> bool:
        """Whether the command runs."""
        process = self.process
        return process is not None and process.poll() is None

    def end_input(self) -> None:
        """Close the command's input, and start it no more."""
        self._begin_to_close()
        with self._lock:
            if self.process is not None and self.process.stdin is not None:
                with contextlib.suppress(OSError):
                    self.process.stdin.close()

    def close(self, within_s: float = CLOSE_S) -> None:
        """End the command: gputop there ends when its input closes."""
        self._begin_to_close()
        with self._lock:
            if self.process is not None:
                end_group(self.process, within_s)

    def begin_to_end(self) -> None:
        """Ask the command to end, without waiting; ``close`` does the rest."""
        self._begin_to_close()
        with self._lock:
            if self.process is not None and self.process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.process.pid, signal.SIGTERM)

    def _begin_to_close(self) -> None:
        self.closed.set()
        self.transport.asking.settled(self.host)


def close_all(connections: Collection[Connection]) -> None:
    """End all of them at once. Uses only this thread: at its exit, Python starts no others."""
    for one in connections:
        one.begin_to_end()
    until = time.monotonic() + CLOSE_S
    while time.monotonic() < until and any(one.is_open for one in connections):
        time.sleep(POLL_S)
    for one in connections:
        one.close(POLL_S)


@contextlib.contextmanager
def ending_with_us() -> Iterator[None]:
    """End the connections even if SIGHUP or SIGTERM ends this process at once. Call it in the main thread."""

    def end(number: int, frame: object) -> None:
        abandon_all()
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    ours = [number for number in (signal.SIGHUP, signal.SIGTERM) if signal.getsignal(number) is signal.SIG_DFL]
    for number in ours:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number in ours:
            if signal.getsignal(number) is end:
                signal.signal(number, signal.SIG_DFL)


def abandon_all() -> None:
    """End all commands without waiting, because this process ends now. A command that still connects would outlive it."""
    for pid in tuple(_OPEN):
        with contextlib.suppress(OSError):
            os.killpg(pid, signal.SIGTERM)
