"""Ends gputop on a signal or when the terminal is gone, whatever hangs. Imports no Textual: it watches the start, too.

A hangup usually ends gputop with a signal. If SIGHUP is ignored (nohup, some tmux setups), reading a deleted terminal returns
immediately, forever, and the program would spin. The kernel reports a hangup to ``poll`` even when no other event is requested,
so watching for it is free.

Textual draws through a thread with a short queue. If nothing reads the terminal, that thread blocks, then the event loop, and
then no handler in the loop runs. So a thread of gputop's own waits for the signals that end gputop, and finally ends it.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import termios
import threading
from collections.abc import Callable
from typing import Any

EXIT_TIMEOUT_S = 0.8
"""How long an orderly exit may take before the process is ended: drawing may block on a terminal that never answers."""
HANGUP_CODE = 128 + signal.SIGHUP
"""How a shell reports a program that died of a hangup."""
_OTHERS = {
    *(signal.SIGKILL, signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU, signal.SIGCONT),
    *(signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH, signal.SIGPIPE, signal.SIGXFSZ),
    *(signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS),
}
"""Signals that nothing can handle, that stop a program, that Python or its default ignores, and those of a crash."""
END_SIGNALS = tuple(sorted(signal.valid_signals() - _OTHERS))
"""Signals that would end Python at once, and leave the terminal as the screen had it: those that people send, SIGXCPU (login
nodes limit the CPU time of each process), those of timers, and the real-time signals."""
_LEAVE_SCREEN = b"\x1b[0m\x1b[?1000l\x1b[?1003l\x1b[?1006l\x1b[?1015l\x1b[?2004l\x1b[?7h\x1b[<u\x1b[?1049l\x1b[?25h\x1b[?1004l"
"""What the screen's driver writes at its end: no style; mouse, pasting, keyboard as before; normal screen, cursor."""


def watch(descriptor: int, leave: Callable[[], bool], abandon: Callable[[], object] = lambda: None) -> threading.Thread | None:
    """Call ``leave`` from a thread on a signal of ``END_SIGNALS``, and once the terminal behind ``descriptor`` hangs up.

    If the process still runs ``EXIT_TIMEOUT_S`` later, it calls ``abandon``, which waits for nothing, restores the terminal,
    and exits with 128 and the signal's number; at once if ``leave`` returns False, because Textual's screen has not started. A
    signal that is ignored stays so. Launched runs have their own sessions and are not affected. Return None if ``descriptor``
    is no terminal. Call from the main thread, before the screen starts.
    """
    try:
        if not os.isatty(descriptor):
            return None
        before = termios.tcgetattr(descriptor)
    except (OSError, termios.error):
        return None
    wake_reader, wake_writer = os.pipe()
    os.set_blocking(wake_writer, False)

    def end(number: int, frame: object) -> None:
        with contextlib.suppress(OSError):
            os.write(wake_writer, bytes((number,)))

    for number in END_SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, end)

    def give_up(code: int, last: bytes = _LEAVE_SCREEN) -> None:
        try:
            abandon()
        finally:
            _end(descriptor, before, code, last)

    arguments = (descriptor, wake_reader, leave, give_up)
    thread = threading.Thread(target=_wait, args=arguments, name="gputop-terminal", daemon=True)
    thread.start()
    return thread


def _wait(descriptor: int, wake_reader: int, leave: Callable[[], bool], give_up: Callable[..., None]) -> None:
    poller = select.poll()
    poller.register(descriptor, 0)  # no events requested: hangups and errors are always reported
    poller.register(wake_reader, select.POLLIN)
    code = HANGUP_CODE
    while not (found := dict(poller.poll())).get(descriptor, 0) & (select.POLLHUP | select.POLLERR | select.POLLNVAL):
        if wake_reader in found:
            code = 128 + os.read(wake_reader, 1)[0]
            break
    timer = threading.Timer(EXIT_TIMEOUT_S, give_up, (code,))
    timer.daemon = True
    timer.start()
    with contextlib.suppress(RuntimeError):  # the screen is about to begin, or has just ended
        if not leave():
            give_up(code, b"")


def _end(descriptor: int, before: list[Any], code: int, last: bytes) -> None:
    """Give the terminal back without waiting for anything, and exit."""
    with contextlib.suppress(OSError, termios.error):
        termios.tcsetattr(descriptor, termios.TCSANOW, before)
        if not last:
            os._exit(code)
        termios.tcflush(descriptor, termios.TCOFLUSH)  # frames that nothing has read fill the queue
        if select.select((), (descriptor,), (), 0)[1]:
            os.write(descriptor, last)
    os._exit(code)
