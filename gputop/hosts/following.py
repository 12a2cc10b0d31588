"""The interface for following one host, whatever brings its readings; and the streams of hosts reached by a command."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeAlias

from gputop.hosts.connection import CONNECTING_MOST
from gputop.hosts.state import HostStatus
from gputop.hosts.stream import Heard, HostStream
from gputop.hosts.transport import Transport

Deliver: TypeAlias = Callable[[Heard], object]


class Following(Protocol):
    """One host that is followed."""

    status: HostStatus

    @property
    def failures(self) -> int:
        """Consecutive failed tries."""

    def start(self) -> None:
        """Follow the host in a thread of its own, which also delivers the news."""

    def keep_wanting(self, command: Mapping[str, Any]) -> None:
        """Send a setting, also to a gputop that is started there again."""

    def send(self, command: Mapping[str, Any]) -> None:
        """Send a command if the host is there to read it; never wait."""

    def close(self) -> None:
        """Stop following the host."""


Links: TypeAlias = Mapping[str, Callable[[Deliver], Following]]
"""Host -> the function that creates its stream."""


def links_by(hosts: Sequence[str], transport: Transport, arguments: Sequence[str]) -> Links:
    """Return the streams of hosts that ``transport`` reaches, which take turns to connect. gputop there gets ``arguments``."""
    turn = threading.Semaphore(CONNECTING_MOST)

    def link(host: str, deliver: Deliver) -> HostStream:
        return HostStream(host, transport, arguments, deliver, turn)

    return {host: partial(link, host) for host in hosts}
