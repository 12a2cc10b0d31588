"""Copies a journal's memory into a ring's file through a mapping, by the kernel: no access can end the training.

A file that is truncated while it is mapped ends a process that accesses the mapping, by SIGBUS. So nothing here does: the
stream is written to the process's own memory, and ``process_vm_writev`` copies it. The kernel answers with an error where the
file has become shorter. One call copies records and, after them, the word that makes them visible; it needs no descriptor,
which the script might have closed and opened again as a file of its own, and it does not give up the interpreter lock.

``mmap.mmap`` keeps a descriptor until the mapping ends; ``map_shared`` keeps none on any version of Python.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref
from collections.abc import Callable
from typing import Any

from gputop.tracking.journal import format as form

HEAD_OFFSET, _AFTER_HEAD = form.W_HEAD * 8, form.W_HEAD * 8 + 8
_LIVE_END = form.LIVE_OFFSET + form.LIVE_WORDS.size


def map_shared(fd: int, size: int) -> memoryview[int]:
    """Return the first ``size`` bytes of a file, writable, until the last reference is gone; ``fd`` may be closed.

    Raises:
        OSError: the file cannot be mapped.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
    libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    address = libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED, fd, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    memory = (ctypes.c_ubyte * size).from_address(address)
    # Not at exit: daemon threads may log until the very end.
    weakref.finalize(memory, libc.munmap, address, size).atexit = False
    return memoryview(memory).cast("B")


def private(size: int) -> memoryview[int]:
    """Return memory of this process that holds zeros."""
    return memoryview(mmap.mmap(-1, size))


class Mirror:
    """Copies a ring's memory to its mapped file. ``follow`` is called in turns; ``copy`` may be called at any time, on any
    thread."""

    def __init__(self, memory: memoryview[int], mapped: memoryview[int], write: Callable[..., int]) -> None:
        """Copy all of ``memory`` to ``mapped``, which is as long, by ``copying_call()``."""
        self.end = 0
        """The end of the stream that the file holds."""
        self.failed, self.why = False, "was truncated"
        """Whether nothing is copied any more, and why: the file was found to be shorter than its mapping."""
        self._mapped = memory, mapped  # kept as long as their addresses are used
        self._near, self._far = _address_of(memory), _address_of(mapped)
        self._capacity = len(memory) - form.RING_DATA_OFFSET
        # Pairs of address and size: records and then the head, first those in our memory, then those in the file.
        table = (ctypes.c_size_t * 8)(0, 0, self._near + HEAD_OFFSET, 8, 0, 0, self._far + HEAD_OFFSET, 8)
        self._table = memoryview(table).cast("B").cast("P")
        self._write = write
        self._arguments = _arguments(table, 2)
        # Also lets the kernel provide all pages, so that no record waits for one.
        self._copy(0, len(memory))

    def follow(self, end: int) -> None:
        """Copy the stream from where the last call ended to ``end``, and then its head."""
        size = end - self.end
        if not self.failed:
            at = self.end % self._capacity
            if at + size > self._capacity:
                # Records that wrap around: those up to the ring's end become visible with the others.
                self._copy(form.RING_DATA_OFFSET + at, self._capacity - at)
                size, at = size - (self._capacity - at), 0
            offset = form.RING_DATA_OFFSET + at
            self._copy_and_show(offset, size)
        self.end = end

    def copy(self, offset: int, size: int) -> None:
        """Copy these bytes, and then the live words except for the head, which ``follow`` alone may move."""
        self._copy(offset, size)
        self._copy(_AFTER_HEAD, _LIVE_END - _AFTER_HEAD)

    def copy_live(self) -> None:
        """Copy the live words except for the head."""
        self._copy(_AFTER_HEAD, _LIVE_END - _AFTER_HEAD)

    def close(self) -> None:
        """Release what is open; nothing is, for a mapping."""

    def _copy_and_show(self, offset: int, size: int) -> None:
        """Copy these records, and then the head, which makes them visible."""
        table = self._table
        table[0] = self._near + offset
        table[4] = self._far + offset
        table[1] = table[5] = size
        if self._write(*self._arguments) != size + 8:
            self.failed = True

    def _copy(self, offset: int, size: int) -> None:
        if self.failed:
            return
        table = (ctypes.c_size_t * 4)(self._near + offset, size, self._far + offset, size)
        if self._write(*_arguments(table, 1)) != size:
            self.failed = True


def _address_of(memory: memoryview[int]) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


def _arguments(table: ctypes.Array[ctypes.c_size_t], parts: int) -> tuple[Any, ...]:
    """Return the arguments of ``process_vm_writev`` for a table of as many local as remote parts, all in this process."""
    remote = ctypes.byref(table, ctypes.sizeof(table) // 2)
    return os.getpid(), ctypes.byref(table), ctypes.c_ulong(parts), remote, ctypes.c_ulong(parts), ctypes.c_ulong(0)


def copying_call() -> Callable[..., int] | None:
    """Return ``process_vm_writev``; None if it is not permitted: old profiles of containers forbid it (``file_mirror``)."""
    try:
        function = ctypes.PyDLL(None).process_vm_writev
    except AttributeError:
        return None
    function.restype = ctypes.c_ssize_t
    here = ctypes.create_string_buffer(8)
    at = ctypes.addressof(here)
    return function if function(*_arguments((ctypes.c_size_t * 4)(at, 8, at, 8), 1)) == 8 else None
