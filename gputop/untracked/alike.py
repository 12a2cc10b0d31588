"""How often a run prints each of its losses: ranks that share an output print equal values as often as there are ranks. Pure.

Ranks print at slightly different times, so a value counts once newer ones have followed it. Which rank printed it is unknown.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Mapping

from gputop.losses import loss_metric
from gputop.process import Repeated

OPEN_MAX = 16
"""A slower rank may still print this many of the newest values (our choice)."""
KNOWN_MAX = 64
KNOWN_MIN = 8
SHARE = 0.9
"""At least this many values are judged, and this share of them must be printed equally often: lines may be torn (our
choice)."""
DIGITS_MIN = 3
"""A value with fewer digits, "0.5", is often printed again by chance."""


class Repeats:
    """Counts the values of one output."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, float], int] = {}
        self._done: deque[int] = deque(maxlen=KNOWN_MAX)

    def add(self, metrics: Mapping[str, float]) -> None:
        """Count the training loss of one line, if it has one."""
        name = loss_metric(metrics)
        value = metrics[name] if name is not None else math.nan
        if name is None or not math.isfinite(value) or sum(sign.isdigit() for sign in repr(value).strip("0.")) < DIGITS_MIN:
            return
        key = (name, value)
        if key not in self._open and len(self._open) >= OPEN_MAX:
            self._done.append(self._open.pop(next(iter(self._open))))
        self._open[key] = self._open.get(key, 0) + 1

    @property
    def found(self) -> Repeated | None:
        """How often nearly every one of the newest values was printed, if more than once; None if that is unknown."""
        if len(self._done) < KNOWN_MIN:
            return None
        [(times, number)] = Counter(self._done).most_common(1)
        return Repeated(times, number) if times > 1 and number >= SHARE * len(self._done) else None
