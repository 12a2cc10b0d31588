"""One thread that reads all fast GPUs in turn: a separate thread for each would cost five times as much as the reading.

A slow GPU is read by its own thread. If a call hangs, that GPU keeps the thread, and the others get a new one: ``look``, which
the source calls with each reading, notices the hang.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

QUICK_S = 0.02
"""A GPU is read in turn if its reading takes at most this long: an H100 takes 2 ms, and 8 ms every ten seconds."""
SLOW_S = 0.1
"""A GPU whose reading takes longer than this gets its own thread."""
SHARE = 0.5
"""Share of the interval: if a round takes longer, the slowest GPU gets its own thread."""
HANGS_S = 0.25
"""How long the other GPUs wait for a call that hangs."""


class Member(Protocol):
    """A GPU that can be read in turn or by its own thread (``worker.Worker``)."""

    index: int
    thread: threading.Thread
    """The thread that reads it now or read it last."""

    def start(self) -> None:
        """Read it in its own thread from now on."""

    def run(self) -> None:
        """Read it in this thread from now on."""

    def tick(self, now: float) -> None:
        """Read it once."""

    def finish(self) -> None:
        """Free what the reading has allocated."""


class Rounds:
    """Reads its members every interval, one after another."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._members: dict[int, Member] = {}
        self._thread: threading.Thread | None = None
        self._reading: tuple[Member, float] | None = None
        """What the thread is reading, and since when."""
        self._wake = threading.Event()
        self._stopped = False

    def join(self, worker: Member) -> None:
        """Read this GPU in turn from the next round on, instead of in its own thread."""
        with self._lock:
            self._members[worker.index] = worker
            if self._thread is None:
                self._begin(time.monotonic() + self._interval_s)
            assert self._thread is not None
            worker.thread = self._thread

    def leave_hanging_call(self) -> None:
        """If a call hangs, leave it to its thread, and read the other GPUs in a new one."""
        with self._lock:
            if self._reading is None or time.monotonic() - self._reading[1] < HANGS_S:
                return
            self._part(self._reading[0])

    def set_interval(self, interval_s: float) -> None:
        """Read every ``interval_s`` from now on."""
        self._interval_s = interval_s
        self._wake.set()

    def stop(self) -> None:
        """Ask the thread to end, without waiting."""
        self._stopped = True
        self._wake.set()

    def _begin(self, due: float) -> None:
        """Start a thread for the members. The caller holds the lock."""
        self._thread = threading.Thread(target=self._run, args=(due,), name="nvml", daemon=True)
        for worker in self._members.values():
            worker.thread = self._thread
        self._thread.start()

    def _part(self, worker: Member) -> None:
        """Leave this thread to one member, and start another for the rest. The caller holds the lock."""
        self._reading = self._thread = None
        del self._members[worker.index]
        if self._members:
            self._begin(time.monotonic())

    def _run(self, begin: float) -> None:
        me = threading.current_thread()
        due = begin
        while (at := self._sleep_until(due)) is not None:
            began = time.monotonic()
            slowest, longest_s = None, 0.0
            with self._lock:
                members = [*self._members.values()]
            for worker in members:
                took_s = self._read(worker, me)
                if took_s is None:
                    worker.run()  # it has this thread to itself now
                    return
                if took_s > longest_s:
                    slowest, longest_s = worker, took_s
            ended = time.monotonic()
            due = max(at + self._interval_s, ended)
            if slowest is not None and (longest_s > SLOW_S or ended - began > SHARE * self._interval_s):
                with self._lock:
                    del self._members[slowest.index]
                    if not self._members:
                        self._thread = None
                    is_over = self._thread is not me
                slowest.start()
                if is_over:
                    return
        for worker in [*self._members.values()]:
            worker.finish()

    def _sleep_until(self, due: float) -> float | None:
        return sleep_until(due, self._wake, lambda: self._stopped, lambda: self._interval_s)

    def _read(self, worker: Member, me: threading.Thread) -> float | None:
        """Read one member and return how long that took, in seconds; None if it has taken over the thread."""
        began = time.monotonic()
        with self._lock:
            self._reading = worker, began
        try:
            worker.tick(began)
        except BaseException:  # the thread ends, as that of a single GPU would, but the other members continue
            with self._lock:
                if self._thread is me:
                    self._part(worker)
            raise
        with self._lock:
            if self._thread is not me:
                return None
            self._reading = None
        return time.monotonic() - began


def sleep_until(
    due: float, wake: threading.Event, is_stopped: Callable[[], bool], interval_s: Callable[[], float]
) -> float | None:
    """Sleep until ``due``, or less if a shorter interval sets ``wake``; return the time that was due, or None once stopped.

    Times are in seconds of ``time.monotonic``.
    """
    while not is_stopped() and (left := due - time.monotonic()) > 0:
        if wake.wait(left):
            wake.clear()
            due = min(due, time.monotonic() + interval_s())
    return None if is_stopped() else due
