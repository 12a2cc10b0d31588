"""How long a test waits for what comes within a second on an idle machine, and how often it looks."""

from __future__ import annotations

DEADLINE_S = 120.0
"""Only a test that fails takes this long; with thirty programs on two cores, some that pass take a minute."""


def pause_s(took_s: float, at_least_s: float) -> float:
    """Return the pause after a look that took this long: what is waited for needs the cores, too."""
    return max(at_least_s, min(0.5, 3 * took_s))
