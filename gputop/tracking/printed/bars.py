"""Which lines of a progress bar show new values, which only redraw it, and which are those of an evaluation. Pure.

tqdm draws its bar ten times a second at most, with the values that the script set last. When the script sets values, tqdm draws
it at once: then one count appears twice, or each count appears although the steps are fast.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from gputop.tracking.printed.names import Printed, of_evaluation

_RATE = re.compile(r"[\[,] ?(\d{1,9}(?:\.\d{1,9})?)it/s")
DRAWN_PER_S = 10.0
"""tqdm's default: it waits 0.1 s before it draws the bar again by itself."""


class Redraws:
    """Follows the bars of one stream."""

    def __init__(self) -> None:
        self._metrics: Mapping[str, float] = {}
        self._count: int | None = None

    def is_redrawn(self, printed: Printed, line: str) -> bool:
        """Return whether a line may only repeat what the line before it showed."""
        if not printed.bar or printed.step is None:
            return False
        before, self._metrics = self._metrics, printed.metrics
        count, self._count = self._count, printed.step
        if before != printed.metrics or count is None:
            return False
        rate = _RATE.search(line)
        fast = rate is not None and float(rate[1]) > DRAWN_PER_S
        return printed.step > count + 1 or (printed.step == count + 1 and not fast)


class Turns:
    """Follows the bars of each epoch in one stream where those of the training and of the evaluation look alike.

    Such are the bars of the package ``progress`` in the many scripts that began as a copy of one on CIFAR: the training's comes
    first below the heading of an epoch, and the evaluation's second. Without a heading, the longer one is the training's.
    """

    def __init__(self) -> None:
        self._steps: int | None = None
        """The length of the training's bar."""
        self._is_below_headings = False
        self._begins = False

    def of(self, printed: Printed) -> Printed:
        """Return the contents of a line, as those of an evaluation if its bar is one's."""
        if not printed.metrics and printed.epoch is not None:
            self._is_below_headings = self._begins = True
        if not (printed.bar and printed.batch) or printed.steps is None:
            return printed
        if self._steps is None or self._begins or (not self._is_below_headings and printed.steps > self._steps):
            self._steps, self._begins = printed.steps, False
        if printed.steps == self._steps:
            return printed
        named = {of_evaluation(name, "v"): value for name, value in printed.metrics.items()}
        return replace(printed, metrics=named, step=None, steps=None, bar=False, batch=False)
