"""Reduces a job's log on the disk, and says in it how much was lost. Imports the standard library only."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

PIECE_BYTES = 1 << 20
"""How much is copied at a time."""
_UNFINISHED = rb"gputop: being cut; read on from byte (\d{1,18}) *\n"
_FIRST_LINE_BYTES = 128
"""No first line that a cut writes is longer."""


def cut(path: Path, dropped_before: int = 0) -> int:
    """Reduce a log to its newest half of whole lines, in place, after a line that says how much was dropped.

    Needs no disk space. Until the file is shortened, it also holds all that is kept where that was, and its first line says
    where: a reader shows nothing twice, and the next cut goes on if this process is killed. Returns the number of bytes
    dropped now; ``dropped_before`` counts those of earlier cuts.

    Raises:
        OSError: the log cannot be read or written.
    """
    handle = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0))
    try:
        size = os.fstat(handle).st_size
        before = note(dropped_before).lstrip()
        unfinished = re.match(_UNFINISHED, os.pread(handle, _FIRST_LINE_BYTES, 0))
        if unfinished:
            content = int(unfinished[1])
            dropped = content - (len(before) if dropped_before else 0)
            content = content if content < size else unfinished.end()
        else:
            content = len(before) if os.pread(handle, len(before), 0) == before else 0
            dropped = 0
        begin = (size + len(note(dropped_before + size))) // 2  # what is kept fits before it
        begin = max(content, begin + os.pread(handle, min(size // 4, PIECE_BYTES), begin).find(b"\n") + 1)
        dropped += begin - content
        first = note(dropped_before + dropped).lstrip()
        to = os.pwrite(handle, (b"gputop: being cut; read on from byte %d" % begin).ljust(len(first) - 1) + b"\n", 0)
        for offset in range(begin, size, PIECE_BYTES):
            to += os.pwrite(handle, os.pread(handle, min(PIECE_BYTES, size - offset), offset), to)
        os.ftruncate(handle, to)
        os.pwrite(handle, first, 0)
        return dropped
    finally:
        os.close(handle)


def begin_of(handle: int, size: int) -> int:
    """Return where a log of ``size`` bytes begins: at 0, or behind what a cut under way has already copied.

    Raises:
        OSError: the log cannot be read.
    """
    unfinished = re.match(_UNFINISHED, os.pread(handle, _FIRST_LINE_BYTES, 0))
    begin = int(unfinished[1]) if unfinished else 0
    return begin if begin < size else 0


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
