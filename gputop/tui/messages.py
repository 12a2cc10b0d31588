"""Messages between the feed's thread, the app and the screens."""

from __future__ import annotations

from textual.message import Message


class FeedArrived(Message):
    """Something waits in the feed. Replaces its kind in the queue: the app drains all there is anyway."""

    def can_replace(self, message: Message) -> bool:
        """Let a burst become one message."""
        return isinstance(message, FeedArrived)
