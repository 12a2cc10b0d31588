"""Which lines of a progress bar show new values, and which only redraw it. Pure.

tqdm draws its bar ten times a second at most, with the values that the script set last. When the script sets values, tqdm draws
it at once: then one count appears twice, or each count appears although the steps are fast.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gputop.tracking.printed.names import Printed

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
