"""Answers a screen's questions about one process, in separate threads: a read of /proc can hang with the process.

The newest question wins: it replaces one that is still waiting. A hanging read cannot be cancelled, so other threads continue
in parallel, up to ``READERS_MAX``. Imports psutil only for the first question about details.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from gputop.errors import describe_unexpected
from gputop.process import ProcessAnswer, ProcessQuestion
from gputop.sources.host.details import details_of
from gputop.sources.host.environ import environment_of

READERS_MAX = 4
"""Number of concurrent reader threads. More than one is needed only if reads hang."""
VALUE_MAX_CHARACTERS = 4096
"""Longer values are truncated and end in "…"."""
ENVIRONMENT_MAX_CHARACTERS = 256 * 1024
"""Size of the names and values in one answer. The kernel allows an environment of several MiB, too much for one line."""


class ProcessReader:
    """Answers one question at a time, newest first; calls ``deliver`` with each answer in the thread that read it."""

    def __init__(self, deliver: Callable[[ProcessAnswer], object]) -> None:
        self._deliver = deliver
        self._lock = threading.Lock()
        self._waiting: ProcessQuestion | None = None
        self._threads = 0
        self._being_read: set[ProcessQuestion] = set()

    def ask(self, question: ProcessQuestion) -> None:
        """Queue the question and return at once. The same question is not read twice at the same time."""
        with self._lock:
            if question in self._being_read:
                self._waiting = None
                return
            self._waiting = question
            if self._threads >= READERS_MAX:
                return
            self._threads += 1
        threading.Thread(target=self._run, daemon=True, name="process").start()

    def _run(self) -> None:
        while (question := self._take()) is not None:
            answer = answer_to(question)
            with self._lock:
                self._being_read.discard(question)
            self._deliver(answer)

    def _take(self) -> ProcessQuestion | None:
        """Take the waiting question; without one, this thread ends."""
        with self._lock:
            question, self._waiting = self._waiting, None
            if question is None:
                self._threads -= 1
            else:
                self._being_read.add(question)
            return question


def answer_to(question: ProcessQuestion) -> ProcessAnswer:
    """Read the answer; blocks for as long as /proc does."""
    try:
        if not question.environment:
            return ProcessAnswer(question, details_of(question.pid))
        found = environment_of(question.pid)
    except Exception as error:  # noqa: BLE001 - the screen shows the error, and the next question is still answered
        return ProcessAnswer(question, problem=f"gputop could not read it: {describe_unexpected(error)}.")
    if found is None:
        return ProcessAnswer(question)
    kept = _bound(found)
    return ProcessAnswer(question, environment=kept, omitted=len(found) - len(kept))


def _bound(environment: Mapping[str, str]) -> dict[str, str]:
    """Truncate long values, and keep as many variables as fit: the shortest first, so that no long one displaces many."""
    cut = {
        name: value if len(value) <= VALUE_MAX_CHARACTERS else f"{value[:VALUE_MAX_CHARACTERS]}…"
        for name, value in environment.items()
    }
    kept: dict[str, str] = {}
    left = ENVIRONMENT_MAX_CHARACTERS
    for name in sorted(cut, key=lambda name: len(name) + len(cut[name])):
        left -= len(name) + len(cut[name])
        if left < 0:
            break
        kept[name] = cut[name]
    return {name: kept[name] for name in sorted(kept)}
