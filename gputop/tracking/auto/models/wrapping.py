"""Counts which training calls went through a data-parallel wrapper, and which ones bypassed it."""

from __future__ import annotations

import os
from types import FrameType
from typing import Any

from gputop.facts.parallel import WrapperCalls


class Wrapping:
    """The calls of a run's modules."""

    def __init__(self) -> None:
        self._wrapped = self._bypassed = self._bypassed_steps = 0
        self._counted = (0, 0)
        self._bypassed_class: str | None = None
        self._bypassed_where: str | None = None

    def through(self) -> None:
        """Count a call of an outermost module, direct or by its wrapper."""
        self._wrapped += 1

    def bypassed(self, module: Any, frame: FrameType | None) -> None:
        """Count a call of a wrapper's inner module from the user's line ``frame``."""
        self._bypassed += 1
        self._bypassed_class = type(module).__name__
        self._bypassed_where = None if frame is None else f"{os.path.basename(frame.f_code.co_filename)}:{frame.f_lineno}"

    def stepped(self) -> None:
        """Count, after an optimizer's step, whether the calls since the last step went through the wrapper or bypassed it."""
        wrapped, bypassed = self._counted
        self._counted = self._wrapped, self._bypassed
        if self._wrapped > wrapped:
            self._bypassed_steps = 0
        elif self._bypassed > bypassed:
            self._bypassed_steps += 1

    def fact(self) -> dict[str, Any] | None:
        """Return the fact ``wrapper_calls``; None before the first call."""
        if not (self._wrapped or self._bypassed):
            return None
        return WrapperCalls.filled(
            wrapped=self._wrapped,
            bypassed=self._bypassed,
            bypassed_steps=self._bypassed_steps,
            module=self._bypassed_class,
            where=self._bypassed_where,
        )
