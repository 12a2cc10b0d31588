"""The observations kept of one log, which later lines may still change. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import replace

from gputop.doctor.logs.names import settle
from gputop.doctor.logs.observation import Observation

KEPT_FIRST = 300
KEPT_LAST = 300
"""Observations kept of one log: the first ones and the last ones."""


class Kept:
    """The first and the last observations of a log, and those not taken yet."""

    def __init__(self) -> None:
        """Start without any."""
        self.first: list[Observation] = []
        self._last: deque[Observation] = deque(maxlen=KEPT_LAST)
        self._new: list[Observation] = []

    def add(self, seen: Observation) -> None:
        """Keep an observation."""
        self._new.append(seen)
        (self.first if len(self.first) < KEPT_FIRST else self._last).append(seen)

    def take_new(self) -> list[Observation]:
        """Return the observations since the last call."""
        new, self._new = self._new, []
        return new

    def in_order(self) -> list[Observation]:
        """Return all in the order of the log."""
        return settle(sorted([*self.first, *self._last], key=lambda item: item.at))

    def outlive(self, places: Collection[int]) -> None:
        """Mark the texts at these places as survived."""
        for kept, place, item in self._each():
            if item.at in places:
                kept[place] = replace(item, went_on=True, followed=False)

    def mark(self, number: int, went_on: bool, followed: bool, earlier_start: bool = False) -> None:
        """Mark the texts in a line, or, if the number is negative, in a traceback."""
        for kept, place, item in self._each():
            if item.block == -number if number < 0 else (item.at == number and not item.block):
                kept[place] = replace(item, went_on=went_on, followed=followed, earlier_start=earlier_start)

    def set_place(self, block: int, where: str) -> None:
        """Set the place in the user's code for observations in a traceback that began with library frames only."""
        for kept, place, item in self._each():
            if item.block == block and item.where is not None and item.in_library:
                kept[place] = replace(item, where=where, in_library=False)

    def _each(self) -> Iterator[tuple[list[Observation] | deque[Observation], int, Observation]]:
        for kept in (self.first, self._last, self._new):
            for place, item in enumerate(list(kept)):
                yield kept, place, item
