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
    """The signal and the memory, while they are ours."""

    def __init__(self) -> None:
        self.signal = 0
        """0: there is none."""
        self.descriptor = -1

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
            faulthandler.register(number, file=fd, all_threads=False, chain=False)
            self.signal, self.descriptor = number, fd
            self._identity = identity_of(fd)

    def check(self) -> None:
        """Give up the signal if the script uses it, or the descriptor, for something else."""
        if not self.signal:
            return
        try:
            ours = identity_of(self.descriptor) == self._identity
        except OSError:
            ours = False
        if signal.getsignal(self.signal) is not signal.SIG_DFL:  # it does not know ours
            self.signal, self.descriptor = 0, -1
        elif not ours:
            faulthandler.unregister(self.signal)
            self.signal, self.descriptor = 0, -1

    def give_up(self) -> None:
        """Release the signal and the memory: the run is over."""
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
