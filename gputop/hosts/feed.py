"""One host as the source of a screen: the same feed as the sampler of this machine, over a connection.

Questions of a screen go to the gputop there, which looks at its own processes and its own runs. Nothing here looks up a PID or
a path from a host.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from gputop.agent.feed import Feed, FeedKind, Inbox
from gputop.hosts.following import Deliver, Following, Links
from gputop.hosts.state import SHOWING_STATES, WORDS, HostStatus
from gputop.hosts.stream import Heard
from gputop.questions import Question, command_of
from gputop.snapshot import Snapshot
from gputop.units import duration

PENDING_MAX = 3600
"""Limit for snapshots without a line: those from Prometheus, which are small, and whose only thread must not wait."""
WAITING_MAX = 4
"""Maximum number of snapshots from lines that wait for the screen. Then reading stops and the host waits: decoding more would
slow down the screen, which already lags behind."""
CLOSING_MOST = 32
"""How many connections are ended at a time."""
BUSY_TRIES = 4
"""Number of first connections that a host may refuse before the screen gives up."""


class HostFeed(Inbox):
    """The stream of ``host``; it reconnects by itself after a lost link.

    Construct it early: it then connects while the screen is still importing.
    """

    kind: FeedKind = "live"

    def __init__(self, host: str, link: Callable[[Deliver], Following]) -> None:
        """``link`` makes the stream of the host."""
        super().__init__(PENDING_MAX)
        self.host: str | None = host
        self._notify: Callable[[], object] = lambda: None
        self.stream = link(self._hear)
        self.stream.start()

    def start(self, notify: Callable[[], object]) -> None:
        """Call ``notify`` for everything that arrives, and for what has already arrived."""
        self._notify = notify
        notify()

    def _hear(self, heard: Heard) -> None:
        if heard.snapshot is not None:
            if heard.size_bytes:
                self._wait_for_room(WAITING_MAX)
            self._waiting_bytes += heard.size_bytes
            self._pending.append(heard.snapshot)
        if heard.answer is not None:
            self._answers.append(heard.answer)
        self._notify()

    def age_s(self, snapshot: Snapshot) -> float:
        """Return how old a snapshot is by this machine's clock, in seconds: if this machine is behind, it may have waited
        long, also before it was read. 0 where the clocks are not compared.
        """
        status = self.stream.status
        if status.clock_offset_s is None or status.clock_error_s is None:
            return 0.0
        return max(0.0, time.time() - (snapshot.time - status.clock_offset_s))

    @property
    def link(self) -> HostStatus:
        """The state of the host."""
        return self.stream.status

    def ask(self, question: Question) -> None:
        """Ask the gputop there."""
        self.stream.send(command_of(question))

    def problem(self) -> str | None:
        """Return why no snapshots arrive, and that gputop tries again; None while all is well, or during the first try."""
        status = self.stream.status
        if status.state in SHOWING_STATES or status.state == "connecting":
            return None
        if status.last_heard_at is None:
            if status.state == "busy" and self.stream.failures < BUSY_TRIES:
                return None
            return status.sentence
        lost = f"link to {self.host} lost {duration(max(0.0, time.time() - status.last_heard_at))} ago"
        why = "" if status.state in ("ended", "mute") else f": {WORDS[status.state]}"
        return f"{lost}, trying again{why}"  # a narrow screen cuts the end

    def status(self) -> str | None:
        """Return None: a live stream has no position."""
        return None

    def set_interval(self, interval_s: float) -> None:
        """Ask the gputop there for another interval, and again after a lost link."""
        self.stream.keep_wanting({"interval_s": interval_s})

    def want_pcie(self, wanted: bool) -> None:
        """Ask the gputop there to measure PCIe throughput, or to stop; and again after a lost link."""
        self.stream.keep_wanting({"pcie": wanted})

    def close(self) -> None:
        """End the connection."""
        self._closed.set()
        self.stream.close()


def feeds_of(links: Links) -> tuple[HostFeed, ...]:
    """Return a feed of each host."""
    return tuple(HostFeed(host, link) for host, link in links.items())


def close_all(feeds: Sequence[Feed]) -> None:
    """End all connections at once: one after another, each may take half a second."""
    with ThreadPoolExecutor(CLOSING_MOST) as pool:
        list(pool.map(lambda feed: feed.close(), feeds))
