"""Reserves disk space for the files that torchrun's ranks write themselves.

On a full disk, a rank's print fails and ends the rank. Blocks that a file already owns can still be written, so each file gets
some beyond its end. When the disk has none left, the older half of the file is freed: that part then reads as zeros, followed
by a line that says how much was lost.

This works on ext4, XFS, tmpfs and NFS 4.2, for up to about 100 KB of output per second and rank.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import mmap
import os
from pathlib import Path

from gputop.jobs import log_file, record

RESERVE_BYTES = 128 << 10
"""How much a file owns beyond its end."""
_LEAST_BYTES = 32 << 10
"""A file that owns less keeps all of it."""
_KEEP_SIZE = 1
_PUNCH_HOLE = 2
"""Modes of fallocate(2), from ``linux/falloc.h``: keep the file's size, and free a part of it."""


class RankReserve:
    """The files of a job's ranks as they appear and grow. No method raises."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._held: dict[Path, int] = {}
        """The offset up to which each file owns its blocks."""

    def hold(self) -> None:
        """Extend the reserve of each file that has used up half of it."""
        with contextlib.suppress(OSError):
            for path in self._directory.glob(f"{record.RANKS}/*/attempt_*/*/std*.log"):
                with contextlib.suppress(OSError):
                    if path.lstat().st_size + RESERVE_BYTES // 2 > self._held.get(path, 0):
                        self._extend(path)

    def release(self) -> None:
        """Free what the files own beyond their ends. Call it when nothing writes to them any more."""
        for path, held in self._held.items():
            with contextlib.suppress(OSError):
                handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
                try:
                    begin = -(-os.fstat(handle).st_size // mmap.PAGESIZE) * mmap.PAGESIZE
                    if held > begin:
                        _allocate(handle, _KEEP_SIZE | _PUNCH_HOLE, begin, held - begin)
                finally:
                    os.close(handle)

    def _extend(self, path: Path) -> None:
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
        try:
            size = os.fstat(handle).st_size
            try:
                _allocate(handle, _KEEP_SIZE, size, RESERVE_BYTES)
            except OSError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    self._held[path] = 1 << 62  # not supported by this file system
                    return
                if not _give_back(handle, size):
                    return
                _allocate(handle, _KEEP_SIZE, size, RESERVE_BYTES)
            self._held[path] = size + RESERVE_BYTES
        finally:
            os.close(handle)


def _give_back(handle: int, size: int) -> bool:
    """Free the older half of what a file owns; return whether that freed anything."""
    owned = min(size, os.fstat(handle).st_blocks * 512)
    if owned < _LEAST_BYTES:
        return False
    end = (size - owned // 2) // mmap.PAGESIZE * mmap.PAGESIZE
    note = log_file.note(end)
    os.pwrite(handle, log_file.note(end + len(note)), end)
    _allocate(handle, _KEEP_SIZE | _PUNCH_HOLE, 0, end)
    return True


def _allocate(handle: int, mode: int, offset: int, length: int) -> None:
    function = ctypes.CDLL(None, use_errno=True).fallocate
    function.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    if function(handle, mode, offset, length):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
