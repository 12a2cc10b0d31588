"""A signal that makes this process write down its stack, for when its Python cannot: C code that keeps the interpreter lock.

``faulthandler`` writes it, from the signal handler, into memory of ours that has no name and ends with the process. The
signal is a real-time one that nothing uses: USR1 and USR2 belong to Slurm, Lightning and profilers. It is sent only by
``gputop where``, and only to a rank that does not answer.
"""

from __future__ import annotations

import faulthandler
import fcntl
import os
import signal
from contextlib import suppress

_BELOW_LAST = range(9, 16)
"""Signals counted from SIGRTMAX down. The very last ones are popular with tools, the first ones with C libraries."""
_STANDARD_STREAMS = 3


class LastWords:
    """The signal and the memory, while they are ours."""

    def __init__(self) -> None:
        self.signal = 0
        """0: there is none."""
        self.descriptor = -1

    def prepare(self) -> None:
        """Take a free signal, if there is one."""
        with suppress(Exception):  # without it, a rank that holds the lock has no line
            number = next((signal.SIGRTMAX - below for below in _BELOW_LAST if _is_free(signal.SIGRTMAX - below)), None)
            if number is None:
                return
            first = os.memfd_create("gputop-stack")
            # Away from the standard streams, whose numbers a script without them would give to files of its own.
            fd = fcntl.fcntl(first, fcntl.F_DUPFD_CLOEXEC, _STANDARD_STREAMS)
            os.close(first)
            faulthandler.register(number, file=fd, all_threads=False, chain=False)
            self.signal, self.descriptor = number, fd
            self._identity = _identity(fd)

    def check(self) -> None:
        """Give the signal up where the script has taken it, or the descriptor, for something else."""
        if not self.signal:
            return
        try:
            ours = _identity(self.descriptor) == self._identity
        except OSError:
            ours = False
        if signal.getsignal(self.signal) is not signal.SIG_DFL:  # ours is not known to it
            self.signal, self.descriptor = 0, -1
        elif not ours:
            faulthandler.unregister(self.signal)
            self.signal, self.descriptor = 0, -1

    def give_up(self) -> None:
        """Leave signal and memory: the run is over."""
        self.check()
        if self.signal:
            with suppress(Exception):  # the interpreter may be shutting down
                faulthandler.unregister(self.signal)
                os.close(self.descriptor)
            self.signal, self.descriptor = 0, -1


def _is_free(number: int) -> bool:
    """Return whether a signal has its default action, is not blocked, and Python knows no handler for it."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        lines = dict(line.split(":", 1) for line in file if line.startswith("Sig"))
    taken = 0
    for name in ("SigBlk", "SigIgn", "SigCgt"):
        taken |= int(lines[name], 16)
    return not taken >> (number - 1) & 1 and signal.getsignal(number) is signal.SIG_DFL


def _identity(fd: int) -> tuple[int, int]:
    found = os.fstat(fd)
    return found.st_dev, found.st_ino
