"""A thread in a training that the training does not notice.

The module ``threading`` does not list it: a script may wait until only its own thread is left, and may trace or profile the
threads that it starts. It takes no signals: if the script blocks a signal on its own thread, to wait for it or to save a
checkpoint undisturbed, the signal stays pending, as without gputop.
"""

from __future__ import annotations

import _thread
import os
import signal
from collections.abc import Callable

_OF_ERRORS = {signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS}
"""Faults of the thread itself: if blocked, they would end the process silently."""


class UnseenThread:
    """A daemon thread. Its code must not call ``threading.current_thread``, which would list it."""

    def __init__(self, target: Callable[[], None]) -> None:
        self._target = target
        self._running = _thread.allocate_lock()
        self._pid = self._starter = 0
        self._permits: list[None] = [None]
        self._is_over = False
        self.native_id: int | None = None
        """Its number in the operating system, once it runs."""

    def start(self) -> None:
        """Start it, once.

        Raises:
            RuntimeError: there can be no more threads, or the interpreter is shutting down.
        """
        self._pid, self._starter = os.getpid(), _thread.get_native_id()
        try:
            self._running.acquire()
            _thread.start_new_thread(self._run, ())
        except BaseException:  # no thread, or a signal handler of the script raised: then there may be one
            if self._may_run() and self._running.locked():
                self._running.release()
            raise

    def is_alive(self) -> bool:
        """Return whether it has been started and not ended; a forked child has none."""
        # A signal handler that raised in ``join`` may have left the lock held.
        return self._running.locked() and not self._is_over and os.getpid() == self._pid

    def join(self, within_s: float) -> None:
        """Wait until it has ended, at most this long."""
        if self.is_alive() and self._running.acquire(timeout=within_s):
            self._running.release()

    def _may_run(self) -> bool:
        """Return True once."""
        try:
            self._permits.pop()
        except IndexError:
            return False
        return True

    def _run(self) -> None:
        if not self._may_run():
            return
        try:
            self.native_id = _thread.get_native_id()
            if self.native_id != self._starter:  # gevent turns a thread into a greenlet of the thread that starts it
                signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _OF_ERRORS)
            self._target()
        finally:
            self._is_over = True
            self._running.release()
