"""The optimizers of a run, and which of them step in one iteration.

Another optimizer that steps on the same batch (the generator of a GAN, the second of two optimizers) belongs to the same
iteration: a new one begins when an optimizer steps a second time, or after another batch was fetched. Where no loader shows the
batches, optimizers share an iteration if they did so in the first one, or if they take turns step by step; two that train one
after the other never do.

A process may train several models one after another (a grid search, folds): another training begins with a new optimizer of
other weights, once all earlier optimizers are gone. One that stays (in a list, in a cycle) hides that unless it was the only
one of its training and the new one was made later by the same line, as in a loop over folds. Otherwise nobody knows whether
the earlier one goes on, as beside a probe. Another training of the same weights begins where they are put back to what they
were (``origins``).
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any

from gputop.tracking.auto.training.origins import Origins


class Optimizers:
    """The optimizers that have stepped, by number, and those of the current iteration. Its methods are its only writers."""

    def __init__(self, origins: Origins | None = None) -> None:
        self._origins = Origins() if origins is None else origins
        self._began = self._stepped_in_phase = 0
        """When the first optimizer of this phase took its first step, and how many have stepped in it."""
        self._aside: weakref.WeakSet[Any] = weakref.WeakSet()
        """Those with weights of their own that were made while an earlier one stayed."""
        self.is_unsure = False
        """Whether one of those stepped last: it may be another training."""
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
        """By id, the weights still there that an optimizer of this training has, also one that is gone."""
        self.trainings = 1
        """How many trainings have begun."""
        self.phases = 1
        """How often a first optimizer has begun, or one after all earlier ones were gone."""

    def __len__(self) -> int:
        return len(self._numbers)

    def has(self, optimizer: Any) -> bool:
        """Return whether an optimizer has stepped."""
        return (self._last is not None and self._last() is optimizer) or optimizer in self._numbers

    @property
    def last(self) -> Any:
        """The optimizer that stepped last; None if there is none, or none any more."""
        return None if self._last is None else self._last()

    def number(self, optimizer: Any) -> tuple[int, bool]:
        """Return the number of the optimizer that steps now, and whether it was known."""
        if self._last is not None and self._last() is optimizer:
            return self._last_number, True
        known = optimizer in self._numbers
        if not known:
            self._note_weights(optimizer)
        self.is_unsure = bool(self._aside) and optimizer in self._aside
        number = self._numbers.setdefault(optimizer, len(self._numbers))
        self._last, self._last_number = weakref.ref(optimizer), number
        return number, known

    def _note_weights(self, optimizer: Any) -> None:
        weights = {id(item): weakref.ref(item) for group in optimizer.param_groups for item in group["params"]}
        # A script may make an optimizer for each task or epoch: what is gone must not pile up.
        known = {key: reference for key, reference in self._weights.items() if reference() is not None}
        is_other, origin = known.keys().isdisjoint(weights), self._origins.of(optimizer)
        is_later = origin is not None and origin.at > self._began
        if self._numbers and is_later and self._takes_over_from(self.last, origin):
            self._numbers.clear()
        if not self._numbers:
            if self._last is not None:
                self._begin_phase()
                if is_other:
                    self.trainings += 1
                    known.clear()
                    self._origins.keep(weights)
            self._began = self._origins.count()
        elif is_other and is_later:
            self._aside.add(optimizer)
        self._stepped_in_phase += 1
        self._weights = known | weights

    def _takes_over_from(self, earlier: Any, origin: Any) -> bool:
        before = None if earlier is None or self._stepped_in_phase > 1 else self._origins.of(earlier)
        return before is not None and before.place == origin.place

    def _begin_phase(self) -> None:
        self.phases += 1
        self._stepped_in_phase = 0
        self._aside.clear()

    def begin_training(self) -> None:
        """Begin another training with the optimizers and weights of the last one."""
        self.trainings += 1
        self._begin_phase()

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
