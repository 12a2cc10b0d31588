"""Answers a screen's request for a profile in a separate thread, because it takes seconds. One request at a time.

The code that asks ranks is imported with the first request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from gputop.errors import describe_unexpected
from gputop.profiled import STEPS_MAX, Profile, ProfileQuestion, refused
from gputop.snapshot import Run


class ProfileReader:
    """Answers one question at a time; calls ``deliver`` in the thread that found the answer."""

    def __init__(self, deliver: Callable[[Profile], object]) -> None:
        self._deliver = deliver
        self._busy = threading.Lock()

    def ask(self, question: ProfileQuestion, runs: Sequence[Run]) -> None:
        """Ask a rank and return at once; ignore a request while another is open."""
        if not 1 <= question.steps <= STEPS_MAX or not self._busy.acquire(blocking=False):
            return
        run = next((run for run in runs if run.run_id == question.run_id), None)
        threading.Thread(target=self._run, args=(question, run), daemon=True, name="profile").start()

    def _run(self, question: ProfileQuestion, run: Run | None) -> None:
        try:
            found = _answer(question, run)
        finally:
            self._busy.release()
        self._deliver(found)


def _answer(question: ProfileQuestion, run: Run | None) -> Profile:
    if run is None:
        return refused(question.run_id, question.run_id, "This run is no longer listed.")
    try:
        from gputop.profiles.asking import ask

        return ask(run, question.steps, go=question.go, rank=question.rank)
    except Exception as error:  # noqa: BLE001 - the screen shows the error, and the next question is still answered
        return refused(run.run_id, run.name, f"gputop could not ask: {describe_unexpected(error)}.")
