"""Answers a screen's question in a separate thread, one question at a time: for answers that take seconds, or may hang."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

Found = TypeVar("Found")


class OneAtATime(Generic[Found]):
    """Calls ``deliver`` in the thread that found the answer. ``name`` is the thread's."""

    def __init__(self, name: str, deliver: Callable[[Found], object]) -> None:
        self._name = name
        self._deliver = deliver
        self._busy = threading.Lock()

    def ask(self, answer: Callable[[], Found]) -> None:
        """Call ``answer`` in a thread and return at once; ignore the question while another is open."""
        if self._busy.acquire(blocking=False):
            threading.Thread(target=self._run, args=(answer,), daemon=True, name=self._name).start()

    def _run(self, answer: Callable[[], Found]) -> None:
        try:
            found = answer()
        finally:
            self._busy.release()
        self._deliver(found)
