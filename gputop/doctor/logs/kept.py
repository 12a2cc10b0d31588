"""The observations kept of one log, which later lines may still change. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import replace

from gputop.doctor.logs.names import settle
from gputop.doctor.logs.observation import Observation

KEPT_FIRST = 300
KEPT_LAST = 300
"""Observations kept of one log: the first ones and the last ones."""


class _Cell:
    """One kept observation, in its newest form."""

    __slots__ = ("seen",)

    def __init__(self, seen: Observation) -> None:
        self.seen = seen


class Kept:
    """The first and the last observations of a log, and those not taken yet."""

    def __init__(self) -> None:
        """Start without any."""
        self._first: list[_Cell] = []
        self._last: deque[_Cell] = deque(maxlen=KEPT_LAST)
        self._new: list[_Cell] = []
        self._by_block: dict[int, list[_Cell]] = {}
        self._by_line: dict[int, list[_Cell]] = {}
        """Those in a traceback by its number, and all by their line: a log may have thousands."""
        self._provoked: list[tuple[int, int]] = []
        """From and to which line tests ran and passed."""

    @property
    def any(self) -> bool:
        """Whether there is an observation."""
        return bool(self._first)

    def add(self, seen: Observation) -> None:
        """Keep an observation."""
        cell = _Cell(seen)
        self._new.append(cell)
        (self._first if len(self._first) < KEPT_FIRST else self._last).append(cell)
        self._index(cell)

    def _index(self, cell: _Cell) -> None:
        self._by_line.setdefault(cell.seen.at, []).append(cell)
        if cell.seen.block:
            self._by_block.setdefault(cell.seen.block, []).append(cell)

    def take_new(self) -> list[Observation]:
        """Return the observations since the last call."""
        new, self._new = self._new, []
        self._by_block, self._by_line = {}, {}
        for cell in (*self._first, *self._last):
            self._index(cell)
        return [cell.seen for cell in new]

    def in_order(self) -> list[Observation]:
        """Return all in the order of the log."""
        return settle(sorted([cell.seen for cell in (*self._first, *self._last)], key=lambda item: item.at))

    def outlive(self, places: Collection[int]) -> None:
        """Mark the texts at these places as survived."""
        for place in places:
            for cell in self._by_line.get(place, ()):
                cell.seen = replace(cell.seen, went_on=True, followed=False)

    def provoked(self, first: int, last: int) -> None:
        """Mark the texts in these lines as survived, whatever comes after them: tests provoked them, and passed."""
        self._provoked.append((first, last))
        self.outlive([place for place in self._by_line if first <= place <= last])

    def mark(self, number: int, went_on: bool, followed: bool, earlier_start: bool = False) -> None:
        """Mark the texts in a line, or, if the number is negative, in a traceback."""
        for cell in self._by_block.get(-number, ()) if number < 0 else self._by_line.get(number, ()):
            if any(first <= cell.seen.at <= last for first, last in self._provoked):
                continue
            if number < 0 or not cell.seen.block:
                cell.seen = replace(cell.seen, went_on=went_on, followed=followed, earlier_start=earlier_start)

    def set_place(self, block: int, where: str) -> None:
        """Set the place in the user's code for observations in a traceback that began with library frames only."""
        for cell in self._by_block.get(block, ()):
            if cell.seen.where is not None and cell.seen.in_library:
                cell.seen = replace(cell.seen, where=where, in_library=False)
