"""The memory of another process, read without stopping it."""

from __future__ import annotations

import os
import struct

_WORD = struct.Struct("<Q")
READS_MAX = 20_000
"""Reads while it is open: a model of 400 modules takes a quarter of that, and what is torn might lead anywhere."""


class TornError(Exception):
    """What was read does not fit together: it changed meanwhile, or is something else than expected."""


class Memory:
    """Reads the memory of one process. Nothing can be read unless it is open: it is a context manager."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._file = -1
        self._reads = 0

    def __enter__(self) -> Memory:
        """Open it.

        Raises:
            OSError: the process is gone, or the system does not let this user read it.
        """
        self._file = os.open(f"/proc/{self.pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        self._reads = 0
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)
        self._file = -1

    def read(self, at: int, size: int) -> bytes:
        """Return ``size`` bytes at an address.

        Raises:
            TornError: there is no such memory, or too much was read.
        """
        self._reads += 1
        if not 0 < at < 2**63 - size or self._reads > READS_MAX:
            raise TornError
        try:
            data = os.pread(self._file, size, at)
        except OSError:  # no memory there
            raise TornError from None
        if len(data) != size:
            raise TornError
        return data

    def word(self, at: int) -> int:
        """Return the 64-bit number at an address.

        Raises:
            TornError: there is no such memory.
        """
        return int(_WORD.unpack(self.read(at, 8))[0])
