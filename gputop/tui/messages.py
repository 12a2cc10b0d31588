"""Messages between the feed's thread, the app and the screens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.message import Message

if TYPE_CHECKING:
    from gputop.hosts.feed import HostFeed


class FeedArrived(Message):
    """Something waits in the feed. Replaces other messages of its kind: the app drains the whole feed anyway."""

    def can_replace(self, message: Message) -> bool:
        """Collapse a burst into one message."""
        return isinstance(message, FeedArrived)


class HostsFound(Message):
    """There are more hosts than at the start; their streams connect already."""

    def __init__(self, feeds: Sequence[HostFeed]) -> None:
        super().__init__()
        self.feeds = feeds
