"""Maps a file without keeping a descriptor of it.

``mmap.mmap`` keeps one until the mapping ends, and closes it then by its number: by that time it may be the script's, see
``own_file``. Python 3.13 can leave it out; this does so on every version.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import weakref


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
