"""How many examples a property test draws: few in the suite, and ``FUZZ`` times as many for ``make fuzz``."""

from __future__ import annotations

import os

TIMES = int(os.environ.get("FUZZ") or 1)
DEFAULT_EXAMPLES = 100
"""The number of examples that Hypothesis draws by default."""


def examples(number: int) -> int:
    """Return how many examples to draw if the suite draws ``number``."""
    return number * TIMES
