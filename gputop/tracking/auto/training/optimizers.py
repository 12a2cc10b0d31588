"""The optimizers of a run, and which of them step in one iteration.

Another optimizer that steps on the same batch (the generator of a GAN, the second of two optimizers) belongs to the same
iteration: a new one begins when an optimizer steps a second time, or after another batch was fetched. If no loader shows the
batches, optimizers share an iteration if they did so in the first one, or if they take turns step by step; two that train one
after the other never do.

A process may train several models one after another (a grid search, folds): another training begins with a new optimizer of
other weights, once all earlier optimizers are gone.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any


class Optimizers:
    """The optimizers that have stepped, by number, and those of the current iteration. Its methods are its only writers."""

    def __init__(self) -> None:
        self._numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._last: weakref.ref[Any] | None = None
        self._last_number = 0
        self._stepped: set[int] = set()
        """Those that stepped in the current iteration."""
        self._earlier: deque[frozenset[int]] = deque(maxlen=2)
        """Those of the iterations before it."""
        self._together: set[frozenset[int]] = set()
        """Pairs that share iterations."""
        self._weights: dict[int, weakref.ref[Any]] = {}
        """By id, the weights that still exist and that an optimizer of this training has or had."""
        self.trainings = 1
        """How many trainings have begun."""
        self.phases = 1
        """How often an optimizer has begun as the first one, or after all earlier ones were gone."""

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def last(self) -> Any:
        """The optimizer that stepped last; None if there is none, or no longer any."""
        return None if self._last is None else self._last()

    def number(self, optimizer: Any) -> tuple[int, bool]:
        """Return the number of the optimizer that steps now, and whether it was known."""
        if self._last is not None and self._last() is optimizer:
            return self._last_number, True
        known = optimizer in self._numbers
        if not known:
            self._note_weights(optimizer)
        number = self._numbers.setdefault(optimizer, len(self._numbers))
        self._last, self._last_number = weakref.ref(optimizer), number
        return number, known

    def _note_weights(self, optimizer: Any) -> None:
        weights = {id(item): weakref.ref(item) for group in optimizer.param_groups for item in group["params"]}
        # A script may create an optimizer for each task or epoch: those that are gone must not accumulate.
        known = {key: reference for key, reference in self._weights.items() if reference() is not None}
        if self._last is not None and not self._numbers:
            self.phases += 1
            if known.keys().isdisjoint(weights):
                self.trainings += 1
                known.clear()
        self._weights = known | weights

    def begins_iteration(self, number: int, has_loader: bool) -> bool:
        """Return whether this step begins another iteration, by the order in which optimizers step."""
        if number in self._stepped:
            return True
        if not self._stepped:
            return False
        pairs = {frozenset((number, other)) for other in self._stepped}
        if not has_loader and self._earlier and not pairs <= self._together:
            alternating = list(self._earlier) == [self._stepped, {number}]
            if not alternating:
                return True
        self._together |= pairs
        return False

    def close_iteration(self) -> None:
        """End the current iteration."""
        if self._stepped:
            self._earlier.append(frozenset(self._stepped))
            self._stepped.clear()

    def add(self, number: int) -> None:
        """Note that an optimizer has stepped in the current iteration."""
        self._stepped.add(number)
