"""How much of this machine's time a host may take with what it sends. One that takes more is read more slowly."""

from __future__ import annotations

import time
from collections.abc import Callable

SHARE = 0.1
"""Of one core: many times what a host with 8 busy GPUs takes, which is 7 ms for a snapshot (benchmarks/hosts.py)."""
SAVED_S = 4.0
"""What a host that sends little may take at once: the past of a hundred ranks takes 2 to 3 s to decode."""
LINE_S = 0.005
"""What each line costs besides decoding it: the screen takes it in (benchmarks/hosts.py)."""
CALM_S = 10.0
"""A host sends too much until it has stayed within its share for this long."""


class Budget:
    """The account of one host. ``clock`` is in seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left_s = SAVED_S
        self._at = clock()
        self._over_until = self._at

    def spend(self, cpu_s: float) -> float:
        """Note a line and the CPU time for decoding it; return for how many seconds nothing more may be read."""
        now = self._clock()
        self._left_s = min(SAVED_S, self._left_s + (now - self._at) * SHARE) - cpu_s - LINE_S
        self._at = now
        if self._left_s >= 0:
            return 0.0
        pause_s = -self._left_s / SHARE
        self._over_until = now + pause_s + CALM_S
        return pause_s

    @property
    def is_over(self) -> bool:
        """Whether the host sends too much."""
        return self._clock() < self._over_until
