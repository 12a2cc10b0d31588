"""How many examples a property test draws: few in the suite, and ``FUZZ`` times as many for ``make fuzz``."""

from __future__ import annotations

import os

TIMES = int(os.environ.get("FUZZ") or 1)
DEFAULT_EXAMPLES = 100
"""What Hypothesis draws where a test does not say how many."""


def examples(number: int) -> int:
    """Return how many examples to draw where the suite draws ``number``."""
    return number * TIMES
