"""Steps of an optimizer within a step of its own: one whose class calls ``super().step()``.

torch runs the hooks of a step for each class that was the first to be made with its own ``step``. If both a class and its base
were, one step of the script runs them twice, and only the outer one counts.
"""

from __future__ import annotations

import sys
import weakref
from types import FrameType
from typing import Any

from gputop.tracking.journal.handlers import let_through

_FRAMES_MAX = 64


class NestedSteps:
    """Which steps are part of another one. It keeps no class and no optimizer alive."""

    def __init__(self, optimizers: Any) -> None:
        """``optimizers`` is the module ``torch.optim.optimizer``."""
        self._base = optimizers.Optimizer
        self._file = optimizers.__file__
        self.are_possible = False
        """Whether one of the classes met so far may nest its steps; those of the fast path have been met."""
        self._may_nest: weakref.WeakKeyDictionary[type, bool] = weakref.WeakKeyDictionary()

    def is_inner(self, optimizer: Any) -> bool:
        """Return whether a hook of the caller runs for a step of an optimizer within another step of the same one.

        Never raises: False of an optimizer whose class cannot be examined.
        """
        try:
            kind = type(optimizer)
            may = self._may_nest.get(kind)
            if may is None:
                may = self._may_nest[kind] = len(self._own_steps(kind)) > 1
                self.are_possible = self.are_possible or may
            return may and self._steps_under_way(optimizer) > 1
        except Exception as error:  # noqa: BLE001 - the user's step runs next, whatever its class is
            let_through(error)
            return False

    def _own_steps(self, kind: type) -> set[int]:
        """Return the ids of the functions ``step`` of a class and its bases, as they were defined: some have no hash."""
        found = (vars(each).get("step") for each in kind.__mro__ if each is not self._base)
        return {id(_as_defined(step)) for step in found if step is not None}

    def _steps_under_way(self, optimizer: Any) -> int:
        """Count torch's wrappers of a step of this optimizer on the stack. One that raised is not there any more."""
        count = 0
        frame: FrameType | None = sys._getframe()
        for _ in range(_FRAMES_MAX):
            if frame is None or count > 1:
                break
            code = frame.f_code
            if code.co_name == "wrapper" and code.co_filename == self._file and frame.f_locals.get("self") is optimizer:
                count += 1
            frame = frame.f_back
        return count


def _as_defined(step: Any) -> Any:
    """Return the function that wrappers with ``__wrapped__`` are around."""
    for _ in range(8):
        inner = getattr(step, "__wrapped__", None)
        if inner is None:
            break
        step = inner
    return step
