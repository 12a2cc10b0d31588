"""When to connect to a host again after a connection has ended."""

from __future__ import annotations

import random

from gputop.agent.live import BACKOFF_S
from gputop.hosts.state import PERSON_STATES, HostState

JITTER = 0.25
"""The fraction by which a wait varies, so that hosts that were lost together do not reconnect together."""
KNOWN_MOST_S = 5.0
"""The longest wait for a host that is away after gputop has run there: it should soon be there again once its network is. An
attempt takes 10 ms of CPU time here. It does not hold for a host behind another one, whose sshd would bear the attempts, nor if
gputop starts there and ends at once: each of these attempts is a login and a start of Python."""
HEALTHY_S = 10.0
"""After a connection that brought readings for this long, the next failure counts as the first."""


class Retries:
    """Counts the connections to one host that failed in a row. Times are monotonic, in seconds."""

    def __init__(self) -> None:
        self.failures = 0
        """Consecutive connections that ended without readings for ``HEALTHY_S``, and the last one."""
        self._read_since: float | None = None
        self._read_at = 0.0
        self._has_started = False
        self._last_one_lasted = False
        """Whether the last gputop that has started there brought readings for ``HEALTHY_S``."""

    def note_start(self) -> None:
        """Note that gputop has started there."""
        self._has_started = True

    def note_reading(self, now: float) -> None:
        """Note that a reading has come."""
        self._has_started = True
        self._read_at = now
        if self._read_since is None:
            self._read_since = now

    def note_end(self) -> None:
        """Note that the connection has ended."""
        lasted = self._read_since is not None and self._read_at - self._read_since >= HEALTHY_S
        self.failures = 1 if lasted else self.failures + 1
        if self._has_started:
            self._last_one_lasted = lasted
        self._has_started, self._read_since = False, None

    def wait_s(self, state: HostState, *, is_behind_another: bool) -> float:
        """Return how many seconds to wait before the next attempt, on average, after a failure with this state."""
        if state in PERSON_STATES:
            return BACKOFF_S[-1]
        wait_s = BACKOFF_S[min(max(self.failures, 1), len(BACKOFF_S)) - 1]
        return min(wait_s, KNOWN_MOST_S) if self._last_one_lasted and not is_behind_another else wait_s


def varied(wait_s: float) -> float:
    """Return a wait with its random part."""
    return wait_s * random.uniform(1 - JITTER, 1 + JITTER)
