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
from collections.abc import Sequence
from itertools import count
from typing import Any

GROUPS_MAX = 64
"""How many sets of optimizers that shared an iteration are remembered."""

WEIGHTS_SPARE = 16
"""How many weights may be remembered, in addition to twice those that existed, before looking for those that are gone."""


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
        self._together: deque[frozenset[int]] = deque(maxlen=GROUPS_MAX)
        """Those that shared an iteration; none of these sets contains another one."""
        self._possible: list[frozenset[int]] = []
        """Those of these sets that contain all that stepped in the current iteration."""
        self._weights: dict[int, weakref.ref[Any]] = {}
        """By id, the weights that an optimizer of this training has or had; freed ones are removed now and then."""
        self._weights_most = 0
        """With more of them, look for freed ones."""
        self.trainings = 1
        """How many trainings have begun."""
        self.phases = 1
        """How often an optimizer was the first one, or the first after all earlier ones were freed."""
        self.trains_again = False
        """Whether the newest optimizer has weights that an earlier one had."""
        self._seen = 0
        """How many have stepped, those that are gone included."""
        self._seen_before: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """For each of them, how many those were when it last took over."""
        self.come_and_go = False
        """Whether several new ones stepped between two steps of one that stays, and some are gone."""

    def __len__(self) -> int:
        return len(self._numbers)

    @property
    def last(self) -> Any:
        """The optimizer that stepped last; None if there is none, or no longer any."""
        return None if self._last is None else self._last()

    def knows(self, optimizer: Any) -> bool:
        """Return whether an optimizer has stepped."""
        return optimizer in self._numbers

    def number(self, optimizer: Any) -> tuple[int, bool]:
        """Return the number of the optimizer that steps now, and whether it was known."""
        if self._last is not None and self._last() is optimizer:
            return self._last_number, True
        known = optimizer in self._numbers
        if not known:
            self._note_weights(optimizer)
            self._numbers[optimizer] = self._free_number()
            self._seen += 1
        elif self._seen - self._seen_before[optimizer] > 1 and len(self._numbers) < self._seen:
            self.come_and_go = True
        self._seen_before[optimizer] = self._seen
        number = self._numbers[optimizer]
        self._last, self._last_number = weakref.ref(optimizer), number
        return number, known

    def _free_number(self) -> int:
        if len(self._numbers) == self._seen:
            return self._seen
        taken = set(self._numbers.values())
        return next(number for number in count() if number not in taken)

    def _note_weights(self, optimizer: Any) -> None:
        weights = {id(item): weakref.ref(item) for group in optimizer.param_groups for item in group["params"]}
        known = self._weights
        self.trains_again = any(key in known and known[key]() is not None for key in weights)
        if self._last is not None and not self._numbers:
            self.phases += 1
            if not self.trains_again:
                self.trainings += 1
                known.clear()
        known.update(weights)
        # A script may create an optimizer for each task or epoch: those that are gone must not accumulate. Looking at all
        # others for each new one would take longer than its steps.
        if len(known) > self._weights_most:
            self._weights = {key: reference for key, reference in known.items() if reference() is not None}
            self._weights_most = 2 * len(self._weights) + WEIGHTS_SPARE

    def with_numbers(self, numbers: Sequence[int]) -> list[Any]:
        """Return the optimizers with these numbers; without those that are gone."""
        found = {number: optimizer for optimizer, number in self._numbers.items()}
        return [found[number] for number in numbers if number in found]

    def begins_iteration(self, number: int, has_loader: bool) -> bool:
        """Return whether this step begins another iteration, by the order in which optimizers step."""
        if number in self._stepped:
            return True
        if not self._stepped:
            return False
        if has_loader or not self._earlier or self._shared_before(number):
            return False
        alternating = list(self._earlier) == [self._stepped, {number}]
        return not alternating

    def _shared_before(self, number: int) -> bool:
        """Return whether an optimizer shared an iteration with each of those that stepped in the current one."""
        # A script may have an optimizer for each weight: looking at all pairs of them takes longer than their steps.
        if any(number in group for group in self._possible):
            return True
        return all(any(number in group and other in group for group in self._together) for other in self._stepped)

    def close_iteration(self) -> None:
        """End the current iteration."""
        if not self._stepped:
            return
        stepped = frozenset(self._stepped)
        self._earlier.append(stepped)
        if len(stepped) > 1 and not any(stepped <= group for group in self._together):
            others = [group for group in self._together if not group <= stepped]
            self._together = deque([*others, stepped], maxlen=GROUPS_MAX)
        self._stepped.clear()

    def add(self, number: int) -> None:
        """Note that an optimizer has stepped in the current iteration."""
        known = self._possible if self._stepped else self._together
        self._possible = [group for group in known if number in group]
        self._stepped.add(number)
