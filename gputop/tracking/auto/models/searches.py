"""Decides when to search the live objects for an optimizer's modules: each search visits all of them and takes 0.1 s or more.

Most scripts make one optimizer, or one for each fold. But one may make an optimizer for each of a million tasks.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from time import perf_counter
from typing import Any

from gputop.tracking.parts import parameters

SEARCHES = 8
SEARCH_SHARE = 0.005
"""After a run's first searches, a new optimizer is searched for at once only if all searches take at most this share of the
time."""
WORTH_A_SEARCH = 20
"""Otherwise, its search waits until the optimizer has existed for this many times as long as a search takes."""


def weights_of(optimizer: Any) -> set[int]:
    """Return the ids of an optimizer's weights."""
    return {id(item) for group in optimizer.param_groups for item in group["params"]}


class Searches:
    """How long the searches of a run took, and which optimizers wait for one."""

    def __init__(self) -> None:
        self._began_s = perf_counter()
        self._number = 0
        self._all_s = self._last_s = 0.0
        self._waiting: weakref.WeakKeyDictionary[Any, tuple[int, float]] = weakref.WeakKeyDictionary()
        """The optimizers whose modules were not searched for: their numbers, and when they first stepped."""
        self._unknown: weakref.WeakSet[Any] = weakref.WeakSet()
        """Those whose modules are also not known from an earlier optimizer."""
        self._covered: set[int] = set()
        """The ids of all weights of the modules that searches in the iteration ``_step`` found."""
        self._step = -1

    def allows(self) -> bool:
        """Return whether there may be a search now."""
        return self._number < SEARCHES or self._all_s <= SEARCH_SHARE * (perf_counter() - self._began_s)

    def took(self, seconds: float) -> None:
        """Note a search."""
        self._number += 1
        self._all_s += seconds
        self._last_s = seconds

    def found(self, roots: Iterable[Any], step: int) -> None:
        """Note the outermost modules that a search after iteration ``step`` found."""
        if step != self._step:
            self._step = step
            self._covered.clear()
        self._covered.update(id(item) for root in roots for item in parameters(root))

    def covers(self, weights: set[int], step: int) -> bool:
        """Return whether a search for another optimizer of this iteration has found the modules of all of these weights.

        Some scripts have an optimizer for each weight, which steps as soon as backward has its gradient.
        """
        return step == self._step and weights <= self._covered

    @property
    def misses_modules(self) -> bool:
        """Whether an optimizer steps on modules that were not found yet."""
        return len(self._unknown) > 0

    def put_off(self, optimizer: Any, number: int, known: bool) -> None:
        """Let an optimizer wait; ``known``: its modules were found for an earlier one."""
        self._waiting[optimizer] = number, perf_counter()
        if not known:
            self._unknown.add(optimizer)

    def due(self) -> dict[int, Any]:
        """Once an optimizer has existed for long enough, return all that wait, by number, and let them wait no longer."""
        worth = perf_counter() - WORTH_A_SEARCH * self._last_s
        waiting = list(self._waiting.items())
        if not any(began <= worth for _, (_, began) in waiting):
            return {}
        self._waiting.clear()
        self._unknown.clear()
        return {number: optimizer for optimizer, (number, _) in waiting}
