"""What gputop itself costs: CPU time of the screen and its sampler, and what is sent to the terminal. No Textual."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from gputop import units

EVERY_S = 10.0
"""Each number is the mean over this time, and stays until the next: the header must not change, and cost, on every tick."""


class Cost(NamedTuple):
    """``cpu_percent``: share of one core, of the sampler too if it runs on this machine. ``sent_bytes_per_s``: to the terminal,
    None if it is not counted.
    """

    cpu_percent: float
    sent_bytes_per_s: float | None

    def words(self) -> str:
        """Return "1.9% · 620 B/s"."""
        sent = self.sent_bytes_per_s
        return f"{self.cpu_percent:.1f}%" + ("" if sent is None else f" · {units.bytes_text(sent)}/s")


class OwnCost:
    """Measures the cost from the first call on, because starting costs more."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, cpu_s: Callable[[], float] = time.process_time) -> None:
        self._clock, self._cpu_s = clock, cpu_s
        self._began: tuple[float, float, int | None] | None = None
        """When the current interval began (seconds), and the CPU time (seconds) and bytes sent until then."""
        self._sampler: list[float] = []
        """The sampler's shares of a core since then, in percent."""
        self._known: Cost | None = None

    def update(self, sampler_percent: float | None, sent_bytes: int | None) -> Cost | None:
        """Return the newest cost; None before it is known.

        Called for each snapshot with the sampler's share of a core (None: it runs elsewhere, or is unknown) and all bytes sent
        so far (None: they are not counted).
        """
        now = self._clock()
        if sampler_percent is not None:
            self._sampler.append(sampler_percent)
        if self._began is None:
            self._begin(now, sent_bytes)
            return None
        began, cpu_s, sent = self._began
        passed = now - began
        if passed >= EVERY_S:
            own = 100 * (self._cpu_s() - cpu_s) / passed
            rate = None if sent_bytes is None or sent is None else max(0, sent_bytes - sent) / passed
            self._known = Cost(own + (units.mean(self._sampler) if self._sampler else 0.0), rate)
            self._begin(now, sent_bytes)
        return self._known

    def _begin(self, now: float, sent_bytes: int | None) -> None:
        self._began = now, self._cpu_s(), sent_bytes
        self._sampler.clear()
