"""Keeps frames from queueing on a slow link: the next one waits until the terminal confirms that the last has arrived.

Between gputop and the terminal lie buffers of any size (ssh, sshd, TCP, kubectl), which gputop cannot see. So it asks the
terminal for its status: the answer comes once everything sent before has arrived. The question is DSR of ECMA-48 (8.3.35),
which every terminal since the VT100 answers. Imports no Textual and reads nothing: ``patient_input`` does.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

ASK = "\x1b[5n"
ANSWER = "\x1b[0n"
_BEGUN = (ANSWER[:3], ANSWER[:2])
"""Possible beginnings of an answer. A lone Escape counts as the key: an answer comes in one piece."""
UNASKED_BYTES = 1400
"""This much is sent without a question: a TCP segment, which takes 0.14 s at 10 kB/s."""
PATIENCE_S = 10.0
"""An answer that takes longer is not waited for; if none has arrived before, no later one is either."""
LEAST_PATIENCE_S = 1.0
"""If a terminal has answered before, an answer counts as lost after this time, unless recent ones have taken long, too."""
PATIENCE_TIMES = 4.0
"""An answer counts as lost after this many times the longest recent answer time: frames differ in size."""
OVERDUE_S = 0.25
OVERDUE_TIMES = 2.0
"""A key does not wait for an answer that takes this long, and this many times as long as the longest recent one."""
FADES = 0.9
"""The share of the longest answer's time that is kept after each answer, because a link recovers."""
LOST_MOST = 3
"""After this many consecutive lost answers, no frame waits until an answer comes: another terminal may have replaced the
first."""
LEAVING_S = 2.0
"""The end waits at most this long for an answer: the shell would read one that comes later."""
FIRST_S = 2.0
"""The end waits for a first answer only this long after its question: most terminals that have not answered by then never
do."""


class Pace:
    """What is known about the terminal's answers. The thread that reads keys calls ``answered``, the screen's calls the
    rest."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._unasked = 0
        self._asked_at: float | None = None
        self._passed = False
        """Whether frames no longer wait for the pending answer; the end still does."""
        self._passed_by = False
        """Whether ``pass_by`` has let a frame pass since the last answer."""
        self._answers: bool | None = None
        """Whether this terminal answers; None: it has not yet, and had little time."""
        self._longest_s = 0.0
        """How long the longest recent answer took."""
        self._lost = 0
        """How many consecutive answers have not come in time."""
        self._nothing_open = threading.Event()
        self._nothing_open.set()

    def sent(self, count: int) -> None:
        """Note that this many characters were sent: few take more than a byte."""
        self._unasked += count

    def is_to_ask(self) -> bool:
        """Return whether to send ``ASK`` now, which counts as sent then."""
        if self._answers is False or self._unasked < UNASKED_BYTES or self._waits():
            return False
        self._unasked, self._asked_at, self._passed = 0, self._clock(), False
        self._nothing_open.clear()
        return True

    @property
    def is_behind(self) -> bool:
        """Whether a frame would have to wait behind the last one."""
        return self._waits() and self._answers is True and self._lost < LOST_MOST

    @property
    def patience_s(self) -> float:
        """How long to wait for an answer, in seconds."""
        if self._answers is not True:
            return PATIENCE_S
        return min(PATIENCE_S, max(LEAST_PATIENCE_S, PATIENCE_TIMES * self._longest_s))

    def _waits(self) -> bool:
        """Whether an answer is pending and still waited for."""
        age_s = self._age_s()
        if age_s is not None and age_s > self.patience_s:
            self._answers = self._answers or False
            self._lost += 1
            self.forget()
        return self._asked_at is not None and not self._passed

    def _age_s(self) -> float | None:
        asked_at = self._asked_at  # another thread may clear it
        return None if asked_at is None else self._clock() - asked_at

    def answered(self) -> None:
        """Note an answer."""
        age_s = self._age_s()
        if age_s is not None:
            self._longest_s = max(age_s, FADES * self._longest_s)
        self._answers = True
        self._lost = 0
        self.forget()

    def forget(self) -> None:
        """Wait for no answer: it has come, or another program used the terminal meanwhile."""
        self._asked_at, self._passed, self._passed_by = None, False, False
        self._nothing_open.set()

    def pass_by(self) -> None:
        """Let the next frame pass a pending answer: the terminal has changed and may never send it.

        Only once until an answer comes: dragging a corner changes the terminal often, and frames would queue.
        """
        if self._asked_at is not None and not self._passed_by:
            self._passed = self._passed_by = True

    def hurry(self) -> bool:
        """Let the next frame pass an overdue answer, because the user is waiting; return whether one is overdue."""
        age_s = self._age_s()
        if not self.is_behind or age_s is None or age_s <= max(OVERDUE_S, OVERDUE_TIMES * self._longest_s):
            return False
        self._passed = True
        return True

    def wait(self) -> None:
        """Wait for a pending answer while it may still come, at most ``LEAVING_S``."""
        age_s = self._age_s()
        limit_s = self.patience_s if self._answers else FIRST_S
        if self._answers is not False and age_s is not None and age_s < limit_s:
            self._nothing_open.wait(min(LEAVING_S, limit_s - age_s))


class Answers:
    """Removes the terminal's answers from its input: they are not keys."""

    def __init__(self, answered: Callable[[], object]) -> None:
        self._answered = answered
        self._begun = ""

    def without(self, text: str) -> str:
        """Return the text without answers; a possible beginning of one is held back until more arrives, or ``rest`` is
        called."""
        parts = (self.rest() + text).split(ANSWER)
        for _ in parts[1:]:
            self._answered()
        last = parts[-1]
        self._begun = next((begun for begun in _BEGUN if last.endswith(begun)), "")
        return "".join(parts).removesuffix(self._begun)

    def rest(self) -> str:
        """Return what was held back: nothing has followed."""
        begun, self._begun = self._begun, ""
        return begun
