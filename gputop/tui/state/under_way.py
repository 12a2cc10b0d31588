"""Requests of the screen to others, in threads that quitting does not wait for; each reports at the end what becomes of it.

Textual waits at its end for its own threads, which a hanging host may delay by minutes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context

from gputop.errors import PLEASE_REPORT, GputopError, describe_unexpected


class UnderWay:
    """The unanswered requests of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: dict[int, Callable[[], str]] = {}
        self._begun = 0

    def start(self, work: Callable[[], object], leave: Callable[[], str], on_error: Callable[[GputopError], object]) -> None:
        """Run ``work`` in a thread, which may post messages.

        ``leave`` is called if the screen ends first: it takes at most a second, and returns what becomes of the request.
        ``on_error`` receives what ``work`` raises, even if unexpected: whoever waits for an answer gets one.
        """
        context = copy_context()
        with self._lock:
            number = self._begun = self._begun + 1
            self._left[number] = leave

        def run() -> None:
            try:
                context.run(work)
            except GputopError as error:
                context.run(on_error, error)
            except Exception as error:  # noqa: BLE001 - a bug in a request is reported like any other failure
                unexpected = GputopError(f"gputop failed: {describe_unexpected(error)}.", f"It needs {PLEASE_REPORT}.")
                context.run(on_error, unexpected)
            finally:
                with self._lock:
                    self._left.pop(number, None)

        threading.Thread(target=run, daemon=True, name="request").start()

    def leave(self) -> tuple[str, ...]:
        """Leave the unanswered requests; return a sentence on each."""
        with self._lock:
            left, self._left = list(self._left.values()), {}
        return tuple(leave() for leave in left)


UNDER_WAY = UnderWay()
"""The requests of this process, which ends with its screen."""
