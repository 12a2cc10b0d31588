"""One heap for all threads of the screen and of the sampler, and what is free of it goes back to the system. Imports nothing at
the top, because both wait for it.

glibc gives each thread a heap of its own, up to eight per core, and each keeps the most that its thread ever needed. With
short-lived threads for GPUs, files and questions, that was a fifth of the sampler's memory. Python's threads run in turns, so
they do not wait for each other's allocations.
"""

from __future__ import annotations

_M_ARENA_MAX = -8
GIVEN_BACK_S = 10.0
"""How often freed memory is given back: a line of eight quick ranks takes megabytes while it is made or read, and what stays
lies in between."""


def share_one_heap() -> None:
    """Let all threads that start from now on use the main thread's heap. Does nothing where the C library is not glibc.

    Never call this where a user's code runs.
    """
    import ctypes

    try:
        set_option = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return
    set_option(_M_ARENA_MAX, 1)


def give_back() -> None:
    """Return the free pages of the heap, also those between objects that stay, which the C library keeps.

    Takes a millisecond or two. Does nothing where the C library is not glibc.
    """
    import ctypes

    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return
    trim(0)
