"""Decides which call writes a journal's next record: one at a time, without a lock, which could block or stay locked.

The writer holds one entry of a dictionary, set by ``dict.setdefault``: a single operation that no thread and no signal
handler can interrupt. A lock and a flag cost 3 us more in a training, whose operations leave the caches cold. The entry's
value is an object that only its call holds, so that an exception from a signal handler, at any point, neither removes
another call's entry nor leaves its own behind. A call that finds another one writing (on another thread, or on its own
thread below a signal handler or a ``__del__``) parks its record, yields briefly, and continues; the call that holds the
entry also writes the parked records.

A call that interrupted another one on its own thread does not yield: it would only give the next signal the time to interrupt
it, too, and so on until the stack is full. Calls that pile up anyway are dropped and counted.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable
from time import sleep
from types import FrameType

PARKED = 10_000
YIELDS = 3
YIELD_S = 5e-5
"""How often, and for how long each time, a thread with a parked record yields to the writer."""
FRAMES_BELOW_MAX = 64
"""A call with more frames of interrupted calls below it is dropped: some twenty signal handlers interrupted each other."""
_WRITING_MODULES = frozenset(__name__.replace("turns", name) for name in ("turns", "deferring", "writer"))


class Turns:
    """Runs the actions of one journal one at a time. ``Journal.log`` inlines the logic of ``_exclusively``."""

    dropped_calls = 0
    """How many calls were dropped because they interrupted each other faster than they could be written."""

    def __init__(self, parked: int = PARKED) -> None:
        self._writing: dict[int, object] = {}
        """The current writer, under the key 0."""
        self._parked: deque[Callable[[], None]] = deque(maxlen=parked)

    def _failed(self, error: Exception) -> None:
        """Report an action that raised."""
        raise NotImplementedError

    def _after_turn(self) -> None:
        """Do what a logging thread must do outside of a turn."""
        raise NotImplementedError

    def _enqueue(self, action: Callable[[], None]) -> None:
        """Run the action when no other call writes: now, or by the current writer once it is done."""
        if 0 in self._writing:
            below = self._frames_below()
            if below > FRAMES_BELOW_MAX or len(self._parked) == self._parked.maxlen:
                self.dropped_calls += 1
                return
            if below:
                self._parked.append(action)
                self._drain()
                return
        self._parked.append(action)
        self._drain()
        for _ in range(YIELDS):
            if not self._parked:
                return
            sleep(YIELD_S)
            self._drain()

    def _frames_below(self) -> int:
        """Return how many frames of interrupted calls are below the current call on this thread's stack."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and frame.f_globals.get("__name__") in _WRITING_MODULES:
            frame = frame.f_back
        count = 0
        while frame is not None:
            count += frame.f_globals.get("__name__") in _WRITING_MODULES
            frame = frame.f_back
        return count

    def _exclusively(self, action: Callable[[], None]) -> bool:
        """Run the action while no other call writes; return False, without running it, if one does."""
        me = object()
        try:
            if self._writing.setdefault(0, me) is not me:
                return False
            action()
            del self._writing[0]
        except BaseException:
            self._release(me)
            raise
        return True

    def _release(self, me: object) -> None:
        if self._writing.get(0) is me:
            del self._writing[0]

    def _drain(self) -> None:
        self._run_parked()
        self._after_turn()

    def _run_parked(self) -> None:
        """Run the parked actions, unless another call is writing: that call runs them when it is done."""
        while self._parked and self._exclusively(self._empty_parked):
            pass

    def _empty_parked(self) -> None:
        while self._parked:
            self._run_one(self._parked.popleft())

    def _run_one(self, action: Callable[[], None]) -> None:
        try:
            action()
        except Exception as error:  # noqa: BLE001 - as in log; one bad record must not keep the others
            self._failed(error)
