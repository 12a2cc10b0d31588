"""Runs a command in this terminal and leaves none of its processes behind, however it ends.

It guarantees the following, even for a launcher whose ranks have their own sessions (torchrun):

* If the command fails or is killed, even by SIGKILL, its remaining processes are ended. After exit code 0 they are kept.
* Ctrl-C, Ctrl-\\ and a hangup reach the command from the terminal itself; TERM and INT sent to this process are forwarded.
  A command that ignores TERM or a hangup is killed after the grace period.
* If this process is killed, even by SIGKILL, alone or with its process group, a guard in its own session ends the command
  and all its ranks within seconds.

The command shares this process's session, group and terminal, so that job control, window size and colors work as in a
shell. Processes are found by a mark in their environment, never by name. Imports no third-party package.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

if __name__ == "__main__":
    # The guard is started by path with -S and -E, so it must find gputop by itself.
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from gputop.errors import GputopError
from gputop.jobs import identity, waiting

GRACE_S = 10.0
"""How long a command may take to exit after TERM or a hangup before it gets KILL."""
LEFT_PATIENCE_S = 3.0
"""How long leftover processes may take to exit after TERM before they get KILL."""
_PR_SET_PDEATHSIG = 1
"""From ``linux/prctl.h``: the signal that a child gets when its parent dies."""
_WATCHED = {signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGCHLD}
_SENT_BY_A_PROCESS = 0
"""``si_code`` SI_USER. Signals from the terminal differ: they reach the whole process group."""
_DONE = b"."


def run(argv: Sequence[str], environment: Mapping[str, str], cwd: str) -> int:
    """Run a command to its end in this terminal. Return its exit code, or die of the signal that killed it.

    Raises:
        GputopError: it cannot be started.
    """
    mark = f"attached-{os.getpid()}-{secrets.token_hex(4)}"
    ignores_hangup = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    env = {**environment, identity.JOB_VARIABLE: mark}
    if ignores_hangup:
        # Under nohup, torchrun would replace the ignored hangup with its own handler, and die of it.
        env.setdefault("PET_SIGNALS_TO_HANDLE", "SIGTERM,SIGINT,SIGQUIT")
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    guard = _start_guard(mark)
    try:
        try:
            child = subprocess.Popen(argv, cwd=cwd, env=env, preexec_fn=lambda: _in_child(before))
        except OSError as error:
            guard.end()
            failed = f"{argv[0]} cannot be started in {cwd}: {error.strerror}."
            raise GputopError(failed, "Check the command and the folder.") from error
        code = _wait(child)
        if code != 0:
            sweep(mark)
        guard.end()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return code if code >= 0 else _die_of(-code)


def sweep(mark: str) -> None:
    """End every process that carries ``mark``: TERM, then KILL, until none is left or the time is up."""
    deadline = time.monotonic() + LEFT_PATIENCE_S
    if identity.signal_marked(mark, signal.SIGTERM):
        while identity.marked(mark) and time.monotonic() < deadline:
            time.sleep(0.05)
    deadline = time.monotonic() + LEFT_PATIENCE_S
    while identity.signal_marked(mark, signal.SIGKILL) and time.monotonic() < deadline:
        time.sleep(0.05)


def _wait(child: subprocess.Popen[bytes]) -> int:
    kill_at: float | None = None
    while (code := child.poll()) is None:
        wait_s = 1.0 if kill_at is None else max(0.05, min(1.0, kill_at - time.monotonic()))
        received = waiting.for_signal(_WATCHED, wait_s)
        if received is not None and received.si_signo != signal.SIGCHLD:
            number = signal.Signals(received.si_signo)
            if received.si_code == _SENT_BY_A_PROCESS:
                child.send_signal(number)
            # The command may handle Ctrl-C itself (a prompt, a debugger), but TERM and a hangup must end it.
            if number in (signal.SIGTERM, signal.SIGHUP) and kill_at is None:
                kill_at = time.monotonic() + GRACE_S
        if kill_at is not None and time.monotonic() >= kill_at:
            child.kill()
    return code


def _in_child(mask: set[signal.Signals | int]) -> None:
    """Request a TERM for when the parent dies. Runs between fork and exec, in a process with one thread."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _die_of(number: int) -> int:
    """Die of the same signal as the command, so that the shell reports it. SIGKILL becomes an exit code."""
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        sys.stdout.flush()
        os.kill(os.getpid(), number)
    return 128 + number


class _Guard:
    """A process that ends the command when this one dies. It notices that when its pipe closes."""

    def __init__(self, process: subprocess.Popen[bytes], writer: int) -> None:
        self._process = process
        self._writer = writer

    def end(self) -> None:
        """Dismiss the guard: it has nothing left to end."""
        with contextlib.suppress(OSError):
            os.write(self._writer, _DONE)
        os.close(self._writer)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(5.0)


def _start_guard(mark: str) -> _Guard:
    reader, writer = os.pipe()  # the command inherits neither end
    try:
        process = subprocess.Popen(
            [sys.executable, "-S", "-E", str(Path(__file__).resolve()), mark],
            stdin=reader,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
    finally:
        os.close(reader)
    return _Guard(process, writer)


def _guard(mark: str) -> None:
    """Wait until the parent is done or dead; if it is dead, end what it ran."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if os.read(sys.stdin.fileno(), 1) != _DONE:
        sweep(mark)


if __name__ == "__main__":
    _guard(sys.argv[1])
