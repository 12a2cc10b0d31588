"""Several hosts at once: one stream each, and one queue of their news."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from gputop.hosts.connection import CONNECTING_MOST
from gputop.hosts.feed import CLOSING_MOST
from gputop.hosts.following import Following, Links
from gputop.hosts.state import HostStatus
from gputop.hosts.stream import Heard, HostStream
from gputop.hosts.transport import Transport

NEWS_MAX = 512
"""Maximum number of news items waiting to be taken; then hosts wait too."""
ONCE_TRIES = 3
"""How often a single reading connects to a host whose sshd turns it away."""


class Fleet:
    """Follows hosts until it is closed."""

    def __init__(self, links: Links, ask: Callable[[], None] | None = None) -> None:
        """``ask`` makes gputop ask the user if a login needs an answer."""
        self._ask = ask
        self._news: queue.Queue[Heard] = queue.Queue(NEWS_MAX)
        self._started = self._closed = False
        self._adding = threading.Lock()
        """Held while streams are added or started, so that each is started once, and ``close`` ends it too."""
        self.streams: list[Following] = [link(self._put) for link in links.values()]

    def add(self, links: Links) -> None:
        """Follow these hosts too, from now on or from the start; safe on any thread."""
        for link in links.values():
            stream = link(self._put)
            with self._adding:
                if self._closed:
                    return
                self.streams.append(stream)
                if self._started:
                    stream.start()

    def start(self) -> None:
        """Follow all of them, unless it is closed; return once no login waits for an answer."""
        with self._adding:
            if self._started or self._closed:
                return
            self._started = True
            for stream in self.streams:
                stream.start()
        if self._ask is not None:
            self._ask()

    def take(self, timeout_s: float) -> Heard | None:
        """Return the next news; None if none comes in time."""
        try:
            return self._news.get(timeout=timeout_s)
        except queue.Empty:
            return None

    def _put(self, heard: Heard) -> None:
        while not self._closed:
            try:
                self._news.put(heard, timeout=0.5)
            except queue.Full:
                continue
            return

    def close(self) -> None:
        """End all connections."""
        with self._adding:
            self._closed = True
        with ThreadPoolExecutor(CLOSING_MOST) as pool:
            list(pool.map(lambda stream: stream.close(), self.streams))


def read_once(hosts: Sequence[str], transport: Transport, arguments: Sequence[str]) -> tuple[Heard, ...]:
    """Return one reading of each host, in their order, or its state.

    ``arguments`` are those with which gputop prints one snapshot.
    """
    turn = threading.Semaphore(CONNECTING_MOST)
    readings = [_Reading(host, transport, arguments, turn) for host in hosts]
    with ThreadPoolExecutor(len(readings)) as pool:
        try:
            taken = [pool.submit(reading.take) for reading in readings]
            transport.asking.ask(hosts)
            return tuple(future.result() for future in taken)
        except BaseException:
            for reading in readings:
                reading.stream.close()
            raise


class _Reading:
    """One reading of one host."""

    def __init__(self, host: str, transport: Transport, arguments: Sequence[str], turn: threading.Semaphore) -> None:
        self._heard = Heard(HostStatus(host))
        self.stream = HostStream(host, transport, arguments, self._hear, turn, tries=ONCE_TRIES)

    def _hear(self, heard: Heard) -> None:
        if self._heard.snapshot is None:
            self._heard = heard
        if heard.snapshot is not None:
            self.stream.close()

    def take(self) -> Heard:
        self.stream.run()
        return self._heard
