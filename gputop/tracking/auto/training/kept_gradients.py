"""Notices that nothing zeroes the gradients after an optimizer's step, so that each step uses the sum of all before.

It watches the first steps only, and stops once a gradient is gone or zero: a script that zeroes them once always does.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

from gputop.tracking.manual_steps import has_own_values

STEPS_MIN = 8
"""This many backward passes in a row must find the gradients of the step before (our choice)."""
_WEIGHTS_MAX = 8
"""Among this many weights of an optimizer, the smallest one with a gradient is looked at."""


class _Mark(NamedTuple):
    """A gradient right after a step: where it is, and how often it had been written to."""

    step: int
    weight: weakref.ref[Any]
    address: int
    version: int


class KeptGradients:
    """How many backwards in a row, from the first one on, found the gradients of the step before. Its methods write it."""

    def __init__(self) -> None:
        self.steps = 0
        self.watches = True
        """Whether it still looks."""
        self._mark: _Mark | None = None

    def stepped(self, optimizer: Any, step: int, optimizers: int) -> None:
        """Remember a gradient that the optimizer's step has used; ``optimizers``: how many have stepped.

        With several, a gradient may be zeroed later, right before its own backward.
        """
        self._mark = None
        if optimizers > 1:
            self.watches, self.steps = False, 0
            return
        weights = optimizer.param_groups[0]["params"][:_WEIGHTS_MAX]
        known = [weight for weight in weights if weight.grad is not None and has_own_values(weight.grad)]
        self.watches = bool(known)
        if known:
            weight = min(known, key=lambda item: int(item.numel()))  # its values may be read
            self._mark = _Mark(step, weakref.ref(weight), weight.grad.data_ptr(), weight.grad._version)

    def backward(self, step: int) -> None:
        """Look at that gradient before the first backward after the step."""
        mark, self._mark = self._mark, None
        if mark is None or mark.step != step:
            return
        weight = mark.weight()
        gradient = None if weight is None else weight.grad
        if (
            gradient is None
            or (gradient.data_ptr(), gradient._version) != (mark.address, mark.version)
            or (gradient.is_cpu and not gradient.detach().any().item())  # zeroed through ``.data``
        ):
            self.watches, self.steps = False, 0
            return
        self.steps += 1
        self.watches = self.steps < STEPS_MIN
