"""Handles SIGWINCH and SIGCONT in the event loop: the terminal has another size, or the program is back."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

from gputop.tui.terminal.private_textual import can_restart, restart


def answer_signals(loop: asyncio.AbstractEventLoop, driver: Any = None, redraw: Callable[[], object] = lambda: None) -> None:
    """Handle changes of the terminal's size one after another, and resume after SIGSTOP.

    Textual's SIGWINCH handler reads the size and then posts it: if the next SIGWINCH interrupts in between, the older size is
    posted last, and the screen keeps it. Its SIGCONT handler starts the screen a second time after a SIGSTOP, which no handler
    sees: two readers then take the keys, and the terminal's raw mode is saved as the mode to restore. Handlers that run in the
    event loop cannot be interrupted.
    """
    resized = signal.getsignal(signal.SIGWINCH)
    if callable(resized):
        loop.add_signal_handler(signal.SIGWINCH, resized, signal.SIGWINCH, None)
    if can_restart(driver):
        loop.add_signal_handler(signal.SIGCONT, _go_on, loop, driver, redraw)


def answering(driver: type[Any]) -> type[Any]:
    """Return a driver that handles these signals before it sets the terminal's raw mode.

    Textual's own handler could run in between, and save the raw mode as the one to restore.
    """

    class Answering(driver):  # type: ignore[misc]
        """Handles these signals as soon as it is made."""

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            answer_signals(asyncio.get_running_loop(), self)

    return Answering


def _go_on(loop: asyncio.AbstractEventLoop, driver: Any, redraw: Callable[[], object]) -> None:
    pace = getattr(driver, "pace", None)
    if pace is not None:
        pace.forget()  # a shell had the terminal; the restart would wait for the answer, and then drop keys
    restart(driver)
    answer_signals(loop, driver, redraw)  # the driver has set its own handlers
    redraw()
