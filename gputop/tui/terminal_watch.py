"""Handles the terminal's signals, and ends gputop when the terminal is gone.

A hangup usually ends gputop with a signal. Where SIGHUP is ignored (nohup, some tmux setups), reading a deleted terminal
returns immediately, forever, and the program would spin. The kernel reports a hangup to ``poll`` even when no other event is
requested, so watching for it is free.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import threading
from collections.abc import Callable

EXIT_TIMEOUT_S = 2.0
"""How long an orderly exit may take before the process is killed: drawing may block on a terminal that never answers."""
EXIT_CODE = 129
"""128 + SIGHUP, as a shell reports a program that died of a hangup."""


def answer_signals(loop: asyncio.AbstractEventLoop, leave: Callable[[], None]) -> None:
    """Exit cleanly on SIGTERM and SIGHUP, and handle changes of the terminal's size one after another.

    When SIGTERM or SIGHUP ends Textual, it does not leave the alternate screen. Its SIGWINCH handler reads the size and then
    posts it: if the next SIGWINCH interrupts in between, the older size is posted last, and the screen keeps it. Handlers that
    run in the event loop cannot be interrupted this way.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, leave)
    resized = signal.getsignal(signal.SIGWINCH)
    if callable(resized):
        loop.add_signal_handler(signal.SIGWINCH, resized, signal.SIGWINCH, None)


def watch(descriptor: int, gone: Callable[[], None]) -> threading.Thread | None:
    """Call ``gone`` from a thread once the terminal behind ``descriptor`` hangs up; return None if it is no terminal.

    If the process still runs ``EXIT_TIMEOUT_S`` later, it exits with ``EXIT_CODE``. Launched runs have their own sessions and
    are not affected.
    """
    try:
        if not os.isatty(descriptor):
            return None
    except OSError:
        return None
    thread = threading.Thread(target=_wait, args=(descriptor, gone), name="gputop-terminal", daemon=True)
    thread.start()
    return thread


def _wait(descriptor: int, gone: Callable[[], None]) -> None:
    poller = select.poll()
    poller.register(descriptor, 0)  # no events requested: hangups and errors are always reported
    while not any(event & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, event in poller.poll()):
        pass
    timer = threading.Timer(EXIT_TIMEOUT_S, os._exit, (EXIT_CODE,))
    timer.daemon = True
    timer.start()
    gone()
