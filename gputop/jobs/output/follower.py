"""Follows one growing file. The only module that opens a job's output.

``FileFollower`` continues where the last read ended, a bounded number of bytes at a time. It notices when the file was
truncated or replaced, and skips the middle of a file too large for its ``Backlog``. Parsing is up to the reader:

* ``restarted``: the data are the start of new content; forget everything.
* ``skipped_bytes``: bytes before the data were skipped; forget the unfinished line.
* ``complete``: the file was read to its end and no more will be written; an unfinished last line counts as a line.

A log that is being cut begins where the cut says (``log_file``): what it has already copied is there twice.
"""

from __future__ import annotations

import os
import re
import stat
import time
from dataclasses import dataclass
from pathlib import Path

from gputop.jobs import log_file

MARK_BYTES = 512
"""How much of what was read last is kept and compared at the next read. It is a few lines, which two outputs share only if
they begin alike or repeat themselves."""

_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_LINE_END = re.compile(rb"\r\n|\r|\n")


@dataclass(frozen=True, slots=True)
class Backlog:
    """How many bytes of a large file are read at its start and at its end.

    A reader that is past the head and more than ``tail_bytes`` behind skips to the tail, at any read.
    """

    head_bytes: int
    tail_bytes: int


DISPLAY = Backlog(0, 64 << 10)
"""For a screen or a terminal: several hundred lines, more than anybody scrolls through. A search reads the rest."""
ERRORS = Backlog(1 << 20, 8 << 20)
"""For known error texts. The first failure may come early, during imports and setup, but most come last, followed by what
every rank says about it. A scan takes 70 ms per MiB of ordinary lines (``matches``)."""
METRICS = Backlog(0, 16 << 20)
"""For a loss curve: as much of the past as 16 reads return, about 100,000 lines of progress."""
SETTLED_S = 1.0
"""Once a file has not been written for this long, its size and time show whether it has changed."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """What one read of a file found. The module's docstring says what a reader does with it."""

    data: bytes = b""
    restarted: bool = False
    skipped_bytes: int = 0
    at_end: bool = True
    """Whether the file contained no more, or cannot be read."""
    complete: bool = False
    written_at: float | None = None
    """When the file was last written, wall clock in seconds; None if it cannot be read."""


class FileFollower:
    """Follows one file, which need not exist yet. Keeps no descriptor open between two reads."""

    def __init__(self, path: Path, backlog: Backlog) -> None:
        self.path = path
        self.offset = 0
        """How far the file has been read, in bytes."""
        self._backlog = backlog
        self._file: tuple[int, int] | None = None
        self._mark = b""
        self._ended_as: tuple[int, int, int, int] | None = None
        """The state of the file when it was last read to its end."""

    def read(self, max_bytes: int, finished: bool = False) -> Chunk:
        """Return at most ``max_bytes`` new bytes. Never raises.

        A file that is missing, a link or not a regular file counts as empty.

        Args:
            max_bytes: the size of one read, at least 1.
            finished: whether the writers have ended, so that nothing will be appended.
        """
        written_at = self._unchanged_since()
        if written_at is not None:
            return Chunk(complete=finished, written_at=written_at)
        handle = open_log(self.path)
        if handle is None:
            return Chunk(complete=finished)
        try:
            return self._read(handle, max_bytes, finished)
        except OSError:
            return Chunk(complete=finished)
        finally:
            os.close(handle)

    def _unchanged_since(self) -> float | None:
        """Return when the file was last written if it is unchanged since its end was read; None if only opening it can tell."""
        if self._ended_as is None:
            return None
        try:
            found = os.lstat(self.path)
        except OSError:
            return None
        # The kernel's clock for files ticks every few ms, so the time of a file that was just written says too little.
        settled = found.st_mtime < time.time() - SETTLED_S
        return found.st_mtime if settled and _state_of(found) == self._ended_as else None

    def _read(self, handle: int, max_bytes: int, finished: bool) -> Chunk:
        found = os.fstat(handle)
        offset, mark = self.offset, self._mark
        # Reads the mark and what follows it at once, so that a truncation between two reads cannot go unnoticed.
        window = os.pread(handle, len(mark) + max_bytes, offset - len(mark))
        # The inode is not enough: it stays when a file is truncated, and is used again after a deletion. Neither is the
        # size: the new content may have outgrown the old offset.
        same_file = self._file in (None, (found.st_dev, found.st_ino))
        restarted = not same_file or found.st_size < offset or not window.startswith(mark)
        if restarted:
            offset, mark = 0, b""
            window = os.pread(handle, max_bytes, 0)
        begin = log_file.begin_of(handle, found.st_size) if not offset else 0
        if begin:
            offset, mark = begin, b""
            window = os.pread(handle, max_bytes, begin)
        data = window[len(mark) :]
        skipped = 0
        behind = found.st_size - offset
        if offset >= self._backlog.head_bytes and behind > self._backlog.tail_bytes:
            skipped = behind - self._backlog.tail_bytes
            offset, mark = offset + skipped, b""
            data = os.pread(handle, max_bytes, offset)
            if not data:  # truncated meanwhile: the next read notices it
                return Chunk(at_end=False, written_at=found.st_mtime)
        self._file = (found.st_dev, found.st_ino)
        self.offset = offset + len(data)
        self._mark = (mark + data)[-MARK_BYTES:]
        if skipped:
            start = first_whole_line(data)
            data, skipped = data[start:], skipped + start
        at_end = self.offset >= found.st_size
        self._ended_as = _state_of(found) if at_end else None
        return Chunk(data, restarted, skipped, at_end, at_end and finished, found.st_mtime)


def _state_of(found: os.stat_result) -> tuple[int, int, int, int]:
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


def open_log(path: Path) -> int | None:
    """Return a descriptor to read a regular file; None if it is missing, a link, unreadable or of another kind.

    Never waits: a FIFO without a writer is passed over.
    """
    try:
        handle = os.open(path, _FLAGS)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return handle
    os.close(handle)
    return None


def first_whole_line(data: bytes) -> int:
    """Return where the first line begins in ``data``, which may start in the middle of a line; 0 if no line ends in it.

    A carriage return also ends a line: a new state of a progress bar follows it.
    """
    found = _LINE_END.search(data)
    return found.end() if found else 0


def size_bytes(path: Path) -> int:
    """Return the size of a file, 0 if it cannot be read."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def fingerprint(path: Path) -> tuple[int, ...]:
    """Return a value that changes whenever the file is written or replaced; () while there is none."""
    try:
        found = path.stat()
    except OSError:
        return ()
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
