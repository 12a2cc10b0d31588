"""Decides which call writes a journal's next record: one at a time, without a lock, which could block or stay locked.

The writer holds one entry of a dictionary, set by ``dict.setdefault``: a single operation that no thread and no signal
handler can interrupt. A lock and a flag cost 3 us more in a training, whose operations leave the caches cold. The entry's
value is an object that only its call holds, so that an exception from a signal handler, at any point, neither removes
another call's entry nor leaves its own behind. A call that finds another one writing (on another thread, or on its own
thread below a signal handler or a ``__del__``) parks its record, yields briefly, and continues; the call that holds the
entry also writes the parked records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import sleep

PARKED = 10_000
YIELDS = 3
YIELD_S = 5e-5
"""How often, and for how long each time, a thread with a parked record yields to the writer."""


class Turns:
    """Runs the actions of one journal one at a time. ``Journal.log`` inlines the logic of ``_exclusively``."""

    def __init__(self, parked: int = PARKED) -> None:
        self._writing: dict[int, object] = {}
        """The current writer, under the key 0."""
        self._parked: deque[Callable[[], None]] = deque(maxlen=parked)

    def _failed(self, error: Exception) -> None:
        """Report an action that raised."""
        raise NotImplementedError

    def _after_turn(self) -> None:
        """Do what a logging thread has to do outside of a turn."""
        raise NotImplementedError

    def _enqueue(self, action: Callable[[], None]) -> None:
        """Run the action when nobody else writes: now, or by the current writer once it is done."""
        self._parked.append(action)
        self._drain()
        for _ in range(YIELDS):
            if not self._parked:
                return
            sleep(YIELD_S)
            self._drain()

    def _exclusively(self, action: Callable[[], None]) -> bool:
        """Run the action while nobody else writes; return False, without running it, if another call is writing."""
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
