"""Waits for blocked signals. Imports the standard library only."""

from __future__ import annotations

import signal
from collections.abc import Collection

_SHORTEST_S = 1e-6
"""The shortest wait: 0 would turn the timer off."""
_AGAIN_S = 0.2
"""How often the alarm repeats."""


def for_signal(numbers: Collection[signal.Signals], timeout_s: float) -> signal.struct_siginfo | None:
    """Wait for one of ``numbers``, which the caller has blocked; return None after ``timeout_s``, or a little earlier.

    Call it in the main thread. It uses the real-time timer instead of ``signal.sigtimedwait``, which returns an
    uninitialized record if a process is stopped during the wait and continued after its deadline (CPython up to 3.14).
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    # Another thread may get an alarm that comes outside the wait: the handler makes that harmless, and the timer repeats.
    handler = signal.signal(signal.SIGALRM, _ignore)
    try:
        signal.setitimer(signal.ITIMER_REAL, max(timeout_s, _SHORTEST_S), _AGAIN_S)
        received = signal.sigwaitinfo({*numbers, signal.SIGALRM})
        if received.si_signo == signal.SIGALRM and (pending := signal.sigpending() & set(numbers)):
            # The alarm was delivered first only because of its number.
            received = signal.sigwaitinfo(pending)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        if signal.SIGALRM in signal.sigpending():
            signal.sigwait({signal.SIGALRM})
        signal.signal(signal.SIGALRM, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return None if received.si_signo == signal.SIGALRM else received


def _ignore(number: int, frame: object) -> None:
    pass
