"""One heap for all threads of the screen and of the sampler. Imports nothing at the top, because both wait for it.

glibc gives each thread a heap of its own, up to eight per core, and each keeps the most that its thread ever needed. With
short-lived threads for GPUs, files and questions, that was a fifth of the sampler's memory. Python's threads run in turns, so
they do not wait for each other's allocations.
"""

from __future__ import annotations

_M_ARENA_MAX = -8


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
