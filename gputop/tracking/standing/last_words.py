"""A signal that makes this process write its stack when Python cannot, because C code holds the interpreter lock.

``faulthandler`` writes it from the signal handler into anonymous memory that ends with the process. The signal is an unused
real-time signal: USR1 and USR2 belong to Slurm, Lightning and profilers. Only ``gputop where`` sends it, and only to a rank
that does not answer.
"""

from __future__ import annotations

import faulthandler
import fcntl
import os
import signal
from contextlib import suppress

from gputop.tracking.journal.writing.own_file import identity_of

_BELOW_LAST = range(9, 16)
"""Signals counted down from SIGRTMAX. Tools often use the very last ones, C libraries the first ones."""
_STANDARD_STREAMS = 3
"""The first descriptor after standard input, output and error."""


class LastWords:
    """The signal and the memory, while they are ours. Its calls may come on any thread, and at the same time."""

    def __init__(self) -> None:
        self._ours: list[tuple[int, int, tuple[int, int]]] = []
        """The signal, the descriptor and its identity, or nothing. Only one thread can take them out."""

    @property
    def signal(self) -> int:
        """The signal, or 0 if there is none."""
        return next((number for number, _, _ in self._ours), 0)

    @property
    def descriptor(self) -> int:
        """The descriptor of the memory, or -1 if there is none."""
        return next((fd for _, fd, _ in self._ours), -1)

    def prepare(self) -> None:
        """Take a free signal, if there is one."""
        with suppress(Exception):  # without it, nothing shows the line of a rank that holds the lock
            number = next((signal.SIGRTMAX - below for below in _BELOW_LAST if _is_free(signal.SIGRTMAX - below)), None)
            if number is None:
                return
            first = os.memfd_create("gputop-stack")
            # Away from the standard streams, whose numbers a script without them would give to files of its own.
            fd = fcntl.fcntl(first, fcntl.F_DUPFD_CLOEXEC, _STANDARD_STREAMS)
            os.close(first)
            identity = identity_of(fd)
            faulthandler.register(number, file=fd, all_threads=False, chain=False)
            self._ours.append((number, fd, identity))

    def check(self) -> None:
        """Give up the signal if the script uses it, or the descriptor, for something else."""
        for number, fd, identity in self._ours:
            try:
                ours = identity_of(fd) == identity
            except OSError:
                ours = False
            if signal.getsignal(number) is not signal.SIG_DFL:  # it does not know ours
                self._take()
            elif not ours and self._take():
                faulthandler.unregister(number)

    def give_up(self) -> None:
        """Release the signal and the memory: the run is over."""
        with suppress(Exception):  # the interpreter may be shutting down
            self.check()
            for number, fd, _ in self._take():
                faulthandler.unregister(number)
                os.close(fd)

    def _take(self) -> list[tuple[int, int, tuple[int, int]]]:
        """Return what is ours, which then no other thread releases."""
        try:
            return [self._ours.pop()]
        except IndexError:
            return []


def _is_free(number: int) -> bool:
    """Return whether a signal has its default action, is not blocked, and Python knows no handler for it."""
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        lines = dict(line.split(":", 1) for line in file if line.startswith("Sig"))
    taken = 0
    for name in ("SigBlk", "SigIgn", "SigCgt"):
        taken |= int(lines[name], 16)
    return not taken >> (number - 1) & 1 and signal.getsignal(number) is signal.SIG_DFL
