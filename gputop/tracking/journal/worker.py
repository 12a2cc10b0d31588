"""A thread of gputop in a training: it sleeps nearly always, and ends before the process forks.

From Python 3.12 on, ``os.fork()`` warns in a process with several threads: a script without threads of its own would print a
warning that it does not print without gputop. So gputop's threads end before a fork, and each starts again at the next call
that needs it. Python counts the threads after all fork hooks have run, so that no hook can start them again.

In a process with other threads, the warning appears anyway, and gputop's threads stay. A thread that cannot end soon, because a
disk does not answer, stays too.
"""

from __future__ import annotations

import _thread
import os
import sys
import time
import weakref
from collections.abc import Callable

from gputop.tracking.journal.handlers import let_through
from gputop.tracking.journal.unseen_thread import UnseenThread

FORK_WAIT_S = 0.2
"""How long a fork waits for gputop's threads; once they have taken longer, no later fork waits."""
_WARNS = sys.version_info >= (3, 12)

_workers: weakref.WeakSet[Worker] = weakref.WeakSet()
_too_slow = False


class Worker:
    """A daemon thread that can be woken, stopped, and started again."""

    def __init__(self, work: Callable[[], None]) -> None:
        """``work`` runs on the thread: it calls ``sleep`` in a loop, and returns once ``has_to_leave()``."""
        self._work = work
        self._alarm = _thread.allocate_lock()
        self._alarm.acquire()
        self._fork: list[None] = []
        """Holds an item from the fork's request to end until the thread agrees, or the fork stops waiting."""
        self._thread: UnseenThread | None = None
        self._cannot_start = False
        self.stopping = False
        """Whether the thread must end for good."""
        _workers.add(self)

    @property
    def is_running(self) -> bool:
        """Whether there is a thread."""
        return self._thread is not None

    def start(self) -> None:
        """Start the thread, unless it runs, has been stopped, or the process can start no more threads."""
        if self._thread is not None or self.stopping or self._cannot_start or sys.is_finalizing():
            return
        self._thread = thread = UnseenThread(self._run)
        try:
            thread.start()
        except RuntimeError:  # no more threads available, or the interpreter is shutting down
            self._thread, self._cannot_start = None, True
        except BaseException:  # a signal handler of the script raised: if the thread starts after all, it returns at once
            if not thread.is_alive():
                self._thread = None
            raise

    def stop(self) -> None:
        """Stop the thread for good, without waiting for it."""
        self.stopping = True
        self.wake()

    def join(self, within_s: float) -> bool:
        """Wait until there is no thread; return whether that is so."""
        thread = self._thread
        if thread is None:
            return True
        thread.join(max(0.0, within_s))
        return not thread.is_alive()

    def wake(self) -> None:
        """End the thread's sleep. Safe on any thread and in a signal handler."""
        if self._alarm.locked():
            try:
                self._alarm.release()
            except RuntimeError:  # another thread was faster
                return

    def sleep(self, seconds: float) -> None:
        """Sleep until ``wake``, at most this long; called on the thread."""
        self._alarm.acquire(timeout=seconds)

    def has_to_leave(self) -> bool:
        """Return whether the thread must return now; called on the thread, which then does."""
        if self.stopping:
            return True
        if not self._fork:
            return False
        try:
            self._fork.pop()
        except IndexError:  # the fork waits no longer
            return False
        return True

    def _run(self) -> None:
        if self._thread is None or self._thread.native_id != _thread.get_native_id():  # one whose start was interrupted
            return
        try:
            self._work()
        finally:
            if not self.stopping:
                self._thread = None

    def _ask_to_leave(self) -> None:
        self._fork.append(None)
        self.wake()

    def _left(self, thread: UnseenThread, until: float) -> bool:
        """Wait until the thread is gone from the operating system too; Python asks it how many threads there are."""
        try:
            while thread.is_alive() or os.path.exists(f"/proc/self/task/{thread.native_id}"):
                if time.monotonic() > until:
                    return False
                thread.join(0.01)
                time.sleep(2e-5)
            return True
        finally:
            self._fork.clear()


def _before_fork() -> None:
    global _too_slow
    try:
        threads = [(worker, worker._thread) for worker in list(_workers)]
        running = [(worker, thread) for worker, thread in threads if thread is not None and thread.is_alive()]
        if _too_slow or not running or len(os.listdir("/proc/self/task")) > len(running) + 1:
            return
        until = time.monotonic() + FORK_WAIT_S
        for worker, _ in running:
            worker._ask_to_leave()
        _too_slow = bool([worker for worker, thread in running if not worker._left(thread, until)])
    except Exception as error:  # noqa: BLE001 - the script forks, whatever goes wrong here
        let_through(error)  # Python prints what a fork hook raises, and forks anyway: at least the user sees it


if _WARNS:
    os.register_at_fork(before=_before_fork)
