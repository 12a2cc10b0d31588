"""A file that stays open in the training process, and is written only while the descriptor still refers to it.

A script may close descriptors that it does not know, as a daemon does (``os.closerange(3, 256)``), and open its own files:
they get the same numbers. So each use compares the file behind the number with the one that was opened. A file whose descriptor
is gone is opened again by its path, if the path still leads to the same file.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from gputop.tracking.journal import size_limit
from gputop.tracking.journal.writing.mapping import map_shared

_STANDARD_STREAMS = 3
_ADD_SEALS = 1033
"""F_ADD_SEALS of Linux (fcntl.h): a Python that was built on an older system lacks the name."""


class OwnFile:
    """A file of gputop, written at given positions."""

    def __init__(self, fd: int, path: Path) -> None:
        """Take over a descriptor that was just opened from ``path``."""
        self._path = path
        self._fd = _above_standard_streams(fd)
        self._identity = identity_of(self._fd)

    def write(self, raw: bytes | memoryview[int], offset: int) -> None:
        """Write all bytes at ``offset``.

        Raises:
            OSError: the file system, or a limit on the size of files, rejects the write, or the script closed the file and it
                cannot be opened again.
        """
        view = memoryview(raw)
        while view:
            size_limit.check(offset)
            done = os.pwrite(self._claim(), view, offset)
            view, offset = view[done:], offset + done

    def links(self) -> int:
        """Return how many names the file has; 0 if it was deleted.

        Raises:
            OSError: as ``write``.
        """
        return os.fstat(self._claim()).st_nlink

    def size(self) -> int:
        """Return the length of the file, in bytes.

        Raises:
            OSError: as ``write``.
        """
        return os.fstat(self._claim()).st_size

    def modified_ns(self) -> int:
        """Return when the file was last modified, in ns since the epoch.

        Raises:
            OSError: as ``write``.
        """
        return os.fstat(self._claim()).st_mtime_ns

    def mapped(self, size: int, seals: int) -> memoryview[int]:
        """Return the file as memory: ``size`` bytes, all of them there, with these seals of ``fcntl``.

        Raises:
            OSError: as ``write``, or there is no memory.
        """
        fd = self._claim()
        size_limit.check(size - 1)
        os.posix_fallocate(fd, 0, size)
        fcntl.fcntl(fd, _ADD_SEALS, seals)
        return map_shared(fd, size)

    def close(self) -> None:
        """Close the descriptor, unless the script has closed it."""
        if self._is_ours(self._fd):
            os.close(self._fd)
        self._fd = -1

    def _is_ours(self, fd: int) -> bool:
        try:
            return fd >= 0 and identity_of(fd) == self._identity
        except OSError:  # the number is free now
            return False

    def _claim(self) -> int:
        if not self._is_ours(self._fd):
            self._fd = -1
            # Not even for a reader that holds a lease on the file (``tracking/reader/namespaces``) and is stopped.
            flags = os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
            fd = _above_standard_streams(os.open(self._path, flags))
            if not self._is_ours(fd):
                os.close(fd)
                raise FileNotFoundError(2, "the script closed the file, and another one has its name now")
            self._fd = fd
        return self._fd


def identity_of(fd: int) -> tuple[int, int]:
    """Return device and inode of an open file, which show later whether the descriptor still refers to it.

    Raises:
        OSError: the descriptor is closed.
    """
    found = os.fstat(fd)
    return found.st_dev, found.st_ino


def _above_standard_streams(fd: int) -> int:
    """Return the descriptor, moved if it took the number of a standard stream that the script has closed."""
    if fd >= _STANDARD_STREAMS:
        return fd
    try:
        return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _STANDARD_STREAMS)
    finally:
        os.close(fd)
