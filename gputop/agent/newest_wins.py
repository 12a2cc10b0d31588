"""Answers a screen's questions in separate threads: the newest question wins, and replaces one that is still waiting.

A read that hangs cannot be cancelled, so other threads may continue in parallel.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Asked = TypeVar("Asked", bound=Hashable)
Found = TypeVar("Found")


class NewestWins(Generic[Asked, Found]):
    """Calls ``deliver`` with each answer, in the thread that found it.

    Args:
        name: the name of its threads.
        answer: finds the answer; may block, and must not raise.
        deliver: takes the answer.
        threads: how many questions are answered at the same time; more than one only where answers may hang.
    """

    def __init__(
        self, name: str, answer: Callable[[Asked], Found], deliver: Callable[[Found], object], threads: int = 1
    ) -> None:
        self._name = name
        self._answer = answer
        self._deliver = deliver
        self._threads_max = threads
        self._lock = threading.Lock()
        self._waiting: Asked | None = None
        self._threads = 0
        self._open: set[Asked] = set()

    def ask(self, question: Asked) -> None:
        """Queue the question and return at once. A question that is being answered is not answered a second time."""
        with self._lock:
            if question in self._open:
                self._waiting = None
                return
            self._waiting = question
            if self._threads >= self._threads_max:
                return
            self._threads += 1
        threading.Thread(target=self._run, daemon=True, name=self._name).start()

    def _run(self) -> None:
        while (question := self._take()) is not None:
            found = self._answer(question)
            with self._lock:
                self._open.discard(question)
            self._deliver(found)

    def _take(self) -> Asked | None:
        """Take the waiting question; without one, this thread ends."""
        with self._lock:
            question, self._waiting = self._waiting, None
            if question is None:
                self._threads -= 1
            else:
                self._open.add(question)
            return question
