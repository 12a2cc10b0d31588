"""Keeps gputop's writes below the process's limit on the size of files (``ulimit -f``, ``RLIMIT_FSIZE``).

The kernel answers a write beyond it with SIGXFSZ. Python ignores that signal; a script that restores its default would be
ended by a write of ours.
"""

from __future__ import annotations

import errno
import math
import os
import resource
import stat


def largest() -> float:
    """Return how many bytes a file may have; infinity without a limit."""
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
    return math.inf if limit == resource.RLIM_INFINITY else limit


def check(offset: int) -> None:
    """Check that a write may begin at this offset of a file; what lies beyond the limit, the kernel then leaves out.

    Raises:
        OSError: the limit does not allow it.
    """
    limit = largest()
    if offset >= limit:
        raise OSError(errno.EFBIG, f"the limit on the size of files (ulimit -f) is {limit:.0f} bytes")


def check_append(fd: int, size: int) -> None:
    """Check that a whole write of ``size`` bytes fits into an open file, wherever it goes; only regular files have a limit.

    Raises:
        OSError: the limit does not allow it, or the descriptor is closed.
    """
    found = os.fstat(fd)
    if stat.S_ISREG(found.st_mode):
        check(max(found.st_size, os.lseek(fd, 0, os.SEEK_CUR)) + size - 1)
