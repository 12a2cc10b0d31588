"""Keeps frames from queueing on a slow link: the next is drawn when the terminal has told that the last has arrived.

Between gputop and the terminal lie buffers of any size (ssh, sshd, TCP, kubectl), which gputop cannot see. So it asks the
terminal how it is: the answer comes when all that was sent before has arrived. The question is DSR of ECMA-48 (8.3.35), which
every terminal since the VT100 answers. Imports no Textual and reads nothing: ``patient_input`` does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

ASK = "\x1b[5n"
ANSWER = "\x1b[0n"
_BEGUN = (ANSWER[:3], ANSWER[:2])
"""What may be the beginning of an answer. A lone Escape is taken for the key: an answer comes in one piece."""
UNASKED_BYTES = 1400
"""So much is sent without a question: a TCP segment, which takes 0.14 s at 10 kB/s."""
PATIENCE_S = 10.0
"""An answer that takes longer is not waited for; nor is any other, where none has come before."""
LEAVING_S = 0.5
"""How long the end waits for an answer: after it, the shell would read it."""


class Pace:
    """What is known of the terminal's answers. The thread that reads keys calls ``answered``, the screen's calls the rest."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._unasked = 0
        self._asked_at: float | None = None
        self._answers: bool | None = None
        """Whether this terminal answers; None: it has not yet, and has had little time."""
        self._nothing_open = threading.Event()
        self._nothing_open.set()

    def sent(self, count: int) -> None:
        """Note that so many characters were sent: few take more than a byte."""
        self._unasked += count

    def is_to_ask(self) -> bool:
        """Return whether to send ``ASK`` now, which counts as sent then."""
        if self._answers is False or self._unasked < UNASKED_BYTES or self._waits():
            return False
        self._unasked, self._asked_at = 0, self._clock()
        self._nothing_open.clear()
        return True

    @property
    def is_behind(self) -> bool:
        """Whether a frame would have to wait behind the last one."""
        return self._waits() and self._answers is True

    def _waits(self) -> bool:
        """Whether an answer is out, and still waited for."""
        if self._asked_at is not None and self._clock() - self._asked_at > PATIENCE_S:
            self._answers = self._answers or False
            self.forget()
        return self._asked_at is not None

    def answered(self) -> None:
        """Note an answer."""
        self._answers = True
        self.forget()

    def forget(self) -> None:
        """Wait for no answer: it has come, or the terminal was another program's in between."""
        self._asked_at = None
        self._nothing_open.set()

    def wait(self) -> None:
        """Wait for an answer that is out, ``LEAVING_S`` at most."""
        if self._answers is True:
            self._nothing_open.wait(LEAVING_S)


class Answers:
    """Takes the terminal's answers out of what it sends: they are no keys."""

    def __init__(self, answered: Callable[[], object]) -> None:
        self._answered = answered
        self._begun = ""

    def without(self, text: str) -> str:
        """Return the text without answers; what may be the beginning of one is kept back until more comes, or ``rest``."""
        parts = (self.rest() + text).split(ANSWER)
        for _ in parts[1:]:
            self._answered()
        last = parts[-1]
        self._begun = next((begun for begun in _BEGUN if last.endswith(begun)), "")
        return "".join(parts).removesuffix(self._begun)

    def rest(self) -> str:
        """Return what was kept back: nothing has followed."""
        begun, self._begun = self._begun, ""
        return begun
