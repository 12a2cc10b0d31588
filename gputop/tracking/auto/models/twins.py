"""Counts calls of a model's twin: a module of its class and shape that is not trained, such as the teacher or the momentum
encoder of self-supervised learning, or an agent's target network. Its weights follow the model's, so that the loss chases a
moving target.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Any

from gputop.tracking import parts

STEPS_MIN = 8
SHARE = 0.5
"""It must be called in so many steps, and in this share of them (our choice): an evaluation may call an average of weights."""
_KNOWN_MAX = 64
"""A script may make modules without end; so many are remembered."""


class Twins:
    """The modules that are called without gradients and are none of the observed ones. Its methods are its only writers."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], bool]] = {}
        self._steps = 0
        self._last = -1

    def called(self, module: Any, observed: Iterable[Any], step: int) -> None:
        """Count a call without gradients after this step; ``observed``: the modules that are trained."""
        if step == self._last:
            return
        known = self._known.get(id(module))
        if known is None or known[0]() is not module:
            if len(self._known) >= _KNOWN_MAX:
                self._known.clear()
            known = weakref.ref(module), _is_like(module, observed)
            self._known[id(module)] = known
        if known[1]:
            self._last = step
            self._steps += 1

    def are_called(self, steps: int) -> bool:
        """Return whether one is called in most of the run's ``steps``."""
        return self._steps >= max(STEPS_MIN, SHARE * steps)


def _is_like(module: Any, observed: Iterable[Any]) -> bool:
    shapes = [item.shape for item in parts.parameters(module)]
    return bool(shapes) and any(
        type(other) is type(module) and [item.shape for item in parts.parameters(other)] == shapes for other in observed
    )
