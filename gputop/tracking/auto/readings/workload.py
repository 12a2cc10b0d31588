"""How much a step works on, and when that changed: layers that thaw, larger images, longer sequences or rollouts.

This distinguishes a run whose steps take longer because they do more from one that slows down.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from typing import Any

from gputop.facts import measured
from gputop.tracking.auto.readings.batches import Called

CHANGES_MAX = 32
"""With more changes, the oldest but the first are forgotten."""
CHANGED = 0.25
"""Inputs whose usual size differs by a smaller share are equal: sentences differ in length (our choice)."""
STEPS = 16
"""The usual size is the median of this many of the newest steps."""


class Workload:
    """The changes of what a step works on, oldest first."""

    def __init__(self) -> None:
        self.inputs = Called()
        """The elements of the newest inputs of the model, by step."""
        self._changes: list[list[int | None]] = []
        self._seen_at = 0

    def look(self, step: int, optimizer: Any) -> None:
        """Note what a step works on now, after ``step``, by the optimizer that stepped last."""
        trained = None if optimizer is None else trained_parameters(optimizer)
        sizes = [elements for at, _, elements in (self.inputs.fact() or [])[-STEPS:] if at > self._seen_at or not self._changes]
        elements = int(statistics.median_low(sizes)) if sizes else None
        last = self._changes[-1] if self._changes else None
        if last is None:
            self._changes.append([step, step, trained, elements])
        elif trained == last[2] and last[3] is None:
            last[3] = elements
        elif trained != last[2] or _differ(elements, last[3]):
            self._changes.append([self._seen_at, step, trained, last[3] if elements is None else elements])
            if len(self._changes) > CHANGES_MAX:
                del self._changes[1]
        self._seen_at = step

    def fact(self) -> dict[str, Any] | None:
        """Return the fact ``workload``; None before the first look."""
        return measured.Workload.filled(changes=[list(row) for row in self._changes]) if self._changes else None


def trained_parameters(optimizer: Any) -> int:
    """Return the elements of the parameters that an optimizer trains; frozen ones do not count."""
    groups: Iterable[Any] = optimizer.param_groups
    return sum(int(item.numel()) for group in groups for item in group["params"] if item.requires_grad)


def _differ(now: int | None, before: int | None) -> bool:
    return now is not None and (before is None or abs(now - before) > CHANGED * before)
