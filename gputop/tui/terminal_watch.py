"""What the terminal tells by signals, and that it is gone, which ends gputop.

A hangup usually ends it by signal. Where that is ignored (nohup, some set-ups of tmux), reading a deleted terminal returns
at once and for ever, and the program would spin. The kernel tells ``poll`` of a hangup without any other event asked for,
so that watching costs nothing.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import threading
from collections.abc import Callable

PATIENCE_S = 2.0
"""How long an orderly end may take before the process is ended: drawing may wait for a terminal that never answers."""
EXIT_CODE = 129
"""As a shell tells of a program that died of a hangup: 128 + SIGHUP."""


def answer_signals(loop: asyncio.AbstractEventLoop, leave: Callable[[], None]) -> None:
    """Leave in order on SIGTERM and SIGHUP, and take in one change of the terminal's size after the other.

    Textual leaves the alternate screen on when one of the first two ends it. Its handler of SIGWINCH reads the size and then
    posts it: interrupted between by the next one it posts the older size last, and the screen keeps it. From the loop nothing
    interrupts it.
    """
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, leave)
    resized = signal.getsignal(signal.SIGWINCH)
    if callable(resized):
        loop.add_signal_handler(signal.SIGWINCH, resized, signal.SIGWINCH, None)


def watch(descriptor: int, gone: Callable[[], None]) -> threading.Thread | None:
    """Call ``gone`` from a thread once the terminal behind ``descriptor`` has hung up; None where it is no terminal.

    If the process still runs ``PATIENCE_S`` later it is ended with ``EXIT_CODE``. Runs that were launched have sessions of
    their own and do not notice.
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
    poller.register(descriptor, 0)  # nothing is asked for: hangup and error are always told
    while not any(event & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, event in poller.poll()):
        pass
    timer = threading.Timer(PATIENCE_S, os._exit, (EXIT_CODE,))
    timer.daemon = True
    timer.start()
    gone()
