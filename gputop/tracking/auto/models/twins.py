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
"""It must be called in this many steps, and in this share of them (our choice): an evaluation may call an average of
weights."""
_KNOWN_MAX = 64
"""At most this many modules are looked at. A script may make modules without end, or call each layer of a frozen model by
itself."""


class Twins:
    """The modules that are called without gradients and are none of the observed ones. Its methods are its only writers."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], bool]] = {}
        self._steps = 0
        self._last = -1

    def is_new(self, module: Any) -> bool:
        """Return whether a module has to be looked at: cheap, because each layer of a frozen model may be asked about."""
        known = self._known.get(id(module))
        return len(self._known) < _KNOWN_MAX if known is None else known[0]() is not module

    def look_at(self, module: Any, observed: Iterable[Any]) -> None:
        """Learn whether a module is the twin of one of those that are ``observed``."""
        self._known[id(module)] = weakref.ref(module), _is_like(module, observed)

    def called(self, module: Any, step: int) -> None:
        """Count a module's call without gradients after this step, if it is known as a twin."""
        known = self._known.get(id(module))
        if known is not None and known[1] and step != self._last:
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
