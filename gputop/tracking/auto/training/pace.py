"""Decides which iterations are measured in full: of short ones, about ``FULL_PER_S`` per second.

At least one in ``FULL_ONE_IN`` is, and all iterations of ``FULL_FROM_S`` or longer are. Only the step number decides which
ones, so that ranks in step with each other pick the same ones, and those picked at a lower share are a subset of those at a
higher share. Multiples of the golden ratio are evenly spread over any period (the number of loader workers, a script that logs
every 10 steps), and the widest gap is less than three times the narrowest.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Sequence

FULL_PER_S = 10.0
FULL_FROM_S = 1 / FULL_PER_S
FULL_ONE_IN = 128
"""At least one iteration in this many is measured in full."""
PLAIN_STEPS = 8
"""This many plain iterations must come first; after one that ended early, two more."""
WRITE_EVERY_S = 0.045
WRITE_STEPS_MIN = 8
"""The training thread itself writes the records of this period, if it holds at least this many iterations: a thread that
fetches them stops the training for longer."""
SHORTEST_S = 1e-5
"""No step of torch is shorter; a script may stop the clock, as tests do."""
RATE_S = 5.0
RATE_MIN_S = 0.25
"""The time over which the pace of a training on a GPU is measured, and after which it is known (our choice)."""
_GOLDEN = 0x9E3779B1
"""2**32 divided by the golden ratio."""
_ALL = 1 << 32
"""All iterations, in units of 2**-32."""


def full_share(step_s: float) -> int:
    """Return which share of iterations of ``step_s`` seconds is measured in full, in units of 2**-32."""
    part = 1
    while part < FULL_ONE_IN and step_s * part < FULL_FROM_S:
        part *= 2
    return _ALL // part


def is_full(step: int, share: int) -> bool:
    """Return whether an iteration is measured in full; ``share`` is in units of 2**-32."""
    return step * _GOLDEN % _ALL < share


class Rate:
    """How long an iteration takes on average over the last seconds.

    For a training on a GPU, whose host only queues work: there, a single iteration takes a moment, or as long as the GPU needs
    for the whole queue.
    """

    def __init__(self) -> None:
        self._ended: deque[tuple[int, float]] = deque(maxlen=int(2 * RATE_S * FULL_PER_S))

    def clear(self) -> None:
        """Start over: something other than training came between."""
        self._ended.clear()

    def after(self, step: int, now: float) -> float | None:
        """Return the mean time of an iteration in seconds; ``step`` has ended ``now``. None if it is not known yet."""
        ended = self._ended
        ended.append((step, now))
        while now - ended[0][1] > RATE_S and len(ended) > 2:
            ended.popleft()
        first, at = ended[0]
        return (now - at) / (step - first) if step > first and now - at >= RATE_MIN_S else None


class Pace:
    """How many consecutive plain iterations there were, and how long they take."""

    def __init__(self) -> None:
        self._plain_steps = 0
        self._share = _ALL
        self.write_every = 0
        """The training writes pending records after this many iterations; 0: never."""

    @property
    def is_steady(self) -> bool:
        """Whether there were enough consecutive plain iterations for the next one to be fast."""
        return self._plain_steps >= PLAIN_STEPS

    def count(self, plain: bool, in_full: bool) -> None:
        """Count an iteration that has ended; ``in_full``: it was measured in full, or else it proves nothing."""
        if plain:
            self._plain_steps += 1
        elif in_full:
            self._plain_steps = 0

    def ended_early(self) -> None:
        """Require two more plain iterations."""
        self._plain_steps = min(self._plain_steps, PLAIN_STEPS - 2)

    def start_over(self) -> None:
        """Require ``PLAIN_STEPS`` plain iterations again."""
        self._plain_steps = 0

    def adapt(self, recent_s: Sequence[float]) -> bool:
        """Adapt to how long iterations take, every few plain ones; return whether it did."""
        if self._plain_steps % PLAIN_STEPS:
            return False
        usual_s = max(statistics.median(recent_s), SHORTEST_S)
        self._share = full_share(usual_s)
        self.write_every = int(WRITE_EVERY_S / usual_s) if usual_s * WRITE_STEPS_MIN < WRITE_EVERY_S else 0
        return True

    def last_before_full(self, step: int, until: int) -> int:
        """Return the last step after ``step`` that is fast; ``step`` itself if the next one is full, as ``until`` always is."""
        # As ``is_full`` of one step after another, but each call of it would cost more than the rest of this loop.
        number, share = step + 1, self._share
        place = number * _GOLDEN % _ALL
        while number < until and place >= share:
            number += 1
            place = (place + _GOLDEN) % _ALL
        return number - 1
