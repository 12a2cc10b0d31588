"""Takes turns at what has arrived, with a pause after each turn, so that keys and drawings get theirs.

Textual takes its next message without a pause: if a turn took longer than an interval, no key would be answered.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Turns:
    """The rhythm in which arrivals are processed. Called on the event loop only."""

    def __init__(self, take: Callable[[], bool], call_later: Callable[[Callable[[], None]], object], rest_s: float) -> None:
        """``take`` processes what is waiting and returns whether there is more than fits into a turn; ``rest_s``: the shortest
        pause between two turns."""
        self._take = take
        self._call_later = call_later
        self._rest_s = rest_s
        self._is_due = False
        self._rested_at = 0.0
        """On the clock of the event loop, in seconds: before this time, arrivals wait."""

    def want(self) -> None:
        """Take a turn, now or after the pause."""
        if self._is_due:
            return
        if asyncio.get_running_loop().time() >= self._rested_at:
            self._turn()
        else:
            self._turn_rested()

    def _turn_rested(self) -> None:
        self._is_due = True
        asyncio.get_running_loop().call_at(self._rested_at, self._call_later, self._turn)

    def _turn(self) -> None:
        self._is_due = False
        clock = asyncio.get_running_loop().time
        began = clock()
        is_more = self._take()
        now = clock()
        # The pause is as long as the turn.
        self._rested_at = now + max(self._rest_s, now - began)
        if is_more:
            self._turn_rested()
