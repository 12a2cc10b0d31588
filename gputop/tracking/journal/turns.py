"""Who writes a journal's next record: one call at a time, without a lock, which could wait and could be left behind.

It is one entry of a dictionary, set by ``dict.setdefault``: one step that no thread and no signal handler can divide, where a
lock and a flag cost 3 us more in a training, whose operations leave the caches cold. The entry is an object that only its
call has, so that an exception from a signal handler, at whatever point, leaves nobody else's entry taken and none behind. A
call that finds another one at it (another thread's, or its own thread's under a signal handler or a ``__del__``) parks its
record, lets the other go on for a moment, and goes on itself; whoever has written writes what is parked.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import sleep

PARKED = 10_000
YIELDS = 3
YIELD_S = 5e-5
"""How often, and for how long, a thread whose record is parked lets the one that writes go on."""


class Turns:
    """Actions of one journal, one at a time. ``Journal.log`` takes its turn in its own code, as ``_exclusively`` does."""

    def __init__(self, parked: int = PARKED) -> None:
        self._writing: dict[int, object] = {}
        """Who writes, under the key 0."""
        self._parked: deque[Callable[[], None]] = deque(maxlen=parked)

    def _failed(self, error: Exception) -> None:
        """Tell of an action that raised."""
        raise NotImplementedError

    def _after_turn(self) -> None:
        """Do what has to be done by a thread that logs, outside of a turn."""
        raise NotImplementedError

    def _enqueue(self, action: Callable[[], None]) -> None:
        """Do this when nobody writes: at once, or by whoever writes now."""
        self._parked.append(action)
        self._drain()
        for _ in range(YIELDS):
            if not self._parked:
                return
            sleep(YIELD_S)
            self._drain()

    def _exclusively(self, action: Callable[[], None]) -> bool:
        """Do this while nobody else writes; return False, without having done it, if somebody does."""
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
        """Do what is parked, unless somebody else is at it: then they do it when they leave."""
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
