"""Reduces a job's log on the disk, and says in it how much was lost. Imports the standard library only."""

from __future__ import annotations

import errno
import os
from pathlib import Path

PIECE_BYTES = 1 << 20
"""How much is copied at a time."""


def cut(path: Path, dropped_before: int = 0) -> int:
    """Reduce a log to its newest half of whole lines, in place, after a line that says how much was dropped.

    Needs no disk space. Returns the number of bytes dropped now; ``dropped_before`` counts those of earlier cuts.

    Raises:
        OSError: the log cannot be read or written.
    """
    handle = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    try:
        size = os.fstat(handle).st_size
        begin = size - size // 2
        begin += os.pread(handle, min(size // 4, PIECE_BYTES), begin).find(b"\n") + 1
        before = note(dropped_before).lstrip()
        dropped = begin - (len(before) if os.pread(handle, len(before), 0) == before else 0)
        to = os.pwrite(handle, note(dropped_before + dropped).lstrip(), 0)
        for offset in range(begin, size, PIECE_BYTES):
            to += os.pwrite(handle, os.pread(handle, min(PIECE_BYTES, size - offset), offset), to)
        os.ftruncate(handle, to)
        return dropped
    finally:
        os.close(handle)


def note(lost_bytes: int) -> bytes:
    """Return the line that replaces lost output and says how much it was."""
    return f"\ngputop: {lost_bytes} bytes lost: the disk or the log was full.\n".encode()


def write_whole(handle: int, data: bytes) -> None:
    """Append all of ``data``, or none of it.

    Raises:
        OSError: the disk is full.
    """
    size = os.fstat(handle).st_size
    if os.write(handle, data) < len(data):
        os.ftruncate(handle, size)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
