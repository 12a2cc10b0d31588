"""Compares another machine's clock with this one's, by a question and its answer, and bounds the error. Pure.

The answer says when the question arrived and when the answer left, so that only the time in transit remains: it bounds the
error (as in NTP, RFC 5905, section 8). The arrival of a snapshot alone gives no such bound.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from gputop.wire import AnswerLine

KEPT = 24
"""Comparisons to keep. The one with the smallest error wins; older ones are dropped because clocks drift."""
SET_S = 1.0
"""Two comparisons that contradict each other by more than this have a clock that was set between them."""
EAGER, EAGER_S, EVERY_S = 4, 0.5, 5.0
"""How often to ask: a few times in quick succession at first, because some answers wait for a reading of the GPUs."""


@dataclass(frozen=True, slots=True)
class ClockQuestion:
    """Sent at ``sent_at`` by the asking clock; the receiver adds ``received_at`` by its own clock. Wall clock, seconds."""

    sent_at: float
    received_at: float | None = None


@dataclass(frozen=True, slots=True)
class ClockAnswer(AnswerLine):
    """The answer, sent at ``answered_at`` by the answering clock, in seconds."""

    KEY = "clock_answer"

    question: ClockQuestion
    answered_at: float


@dataclass(frozen=True, slots=True)
class Compared:
    """The other clock minus this machine's, in seconds; the true offset lies within ``error_s`` of it."""

    offset_s: float
    error_s: float


def compared(answer: ClockAnswer, arrived_at: float) -> Compared | None:
    """Return the comparison that an answer allows; None if its times are impossible. ``arrived_at`` is by this machine's
    clock."""
    sent, received, answered = answer.question.sent_at, answer.question.received_at, answer.answered_at
    if received is None or not all(map(math.isfinite, (received, answered))):
        return None
    ways_s = (arrived_at - sent) - (answered - received)
    if answered < received or ways_s < 0:
        return None  # a clock was set meanwhile
    offset_s = ((received - sent) + (answered - arrived_at)) / 2
    return Compared(offset_s, ways_s / 2) if math.isfinite(offset_s) else None


class ClockWatch:
    """Compares another machine's clock with this one's, for as long as its stream lasts."""

    def __init__(self, ask: Callable[[ClockQuestion], object]) -> None:
        self._ask = ask
        self._asked: ClockQuestion | None = None
        self._asked_times = 0
        self._kept: deque[Compared] = deque(maxlen=KEPT)

    def ask_if_due(self, now: float) -> None:
        """Ask if it is time to. Call it after each reading, when the other side is idle. ``now`` is by this machine's clock."""
        wait_s = EAGER_S if self._asked_times < EAGER else EVERY_S
        if self._asked is None or not 0 <= now - self._asked.sent_at < wait_s:
            self._asked = ClockQuestion(now)
            self._asked_times += 1
            self._ask(self._asked)

    def take(self, answer: ClockAnswer, arrived_at: float) -> None:
        """Take an answer; ignore it unless it answers the last question."""
        if self._asked is None or answer.question.sent_at != self._asked.sent_at:
            return
        found = compared(answer, arrived_at)
        if found is None:
            return
        best = self.best
        if best is not None and abs(found.offset_s - best.offset_s) > found.error_s + best.error_s + SET_S:
            self._kept.clear()
        self._kept.append(found)

    @property
    def best(self) -> Compared | None:
        """The comparison with the smallest error; None before the first."""
        return min(self._kept, key=lambda found: found.error_s, default=None)
