"""Messages between the feed's thread, the app and the screens."""

from __future__ import annotations

from textual.message import Message


class FeedArrived(Message):
    """Something waits in the feed. Replaces other messages of its kind: the app drains the whole feed anyway."""

    def can_replace(self, message: Message) -> bool:
        """Collapse a burst into one message."""
        return isinstance(message, FeedArrived)
