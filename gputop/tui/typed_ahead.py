"""Bounds the keys that wait to be handled.

A paste into a terminal that does not bracket it arrives as keys, hundreds of thousands at once. Textual's thread that reads the
terminal creates a task of 3 kB for each. Here it waits while many are unhandled; the rest stays in the terminal.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

from textual.message import Message

WAITING_MAX = 200
"""How many messages may be unhandled."""
POLL_S = 0.005
"""How often the waiting thread checks again."""


class _App(Protocol):
    @property
    def message_queue_size(self) -> int:
        """How many messages wait in the app."""

    def post_message(self, message: Message) -> bool:
        """Queue a message."""


def bound_keys(app: _App, driver: Any, loop: asyncio.AbstractEventLoop) -> None:
    """Make the thread that reads the terminal wait while ``WAITING_MAX`` messages are unhandled, unless the screen closes.

    Without such a thread (a test's driver), nothing changes.
    """
    closes: Callable[[float], bool] | None = getattr(getattr(driver, "exit_event", None), "wait", None)
    if closes is None:
        return
    # Only one thread updates each counter.
    sent = taken = 0

    def take(message: Message) -> None:
        nonlocal taken
        taken += 1
        app.post_message(message)

    def send(message: Message) -> None:
        nonlocal sent
        while sent - taken + app.message_queue_size >= WAITING_MAX and not closes(POLL_S):
            pass
        sent += 1
        loop.call_soon_threadsafe(take, message)

    driver.send_message = send
