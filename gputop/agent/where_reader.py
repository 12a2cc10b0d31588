"""Answers a screen's question where the ranks of a run are, in a thread of its own: it takes two seconds, and /proc can hang.

One question at a time: one that arrives meanwhile is dropped, and the screen asks again. The code that asks ranks is
imported with the first question.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from gputop.errors import describe_unexpected
from gputop.snapshot import Run
from gputop.whereabouts import Whereabouts


class WhereReader:
    """Answers one question at a time; calls ``deliver`` in the thread that found the answer."""

    def __init__(self, deliver: Callable[[Whereabouts], object]) -> None:
        self._deliver = deliver
        self._busy = threading.Lock()

    def ask(self, run_id: object, runs: Sequence[Run]) -> None:
        """Ask the ranks of a run and return at once; ignore what is not a run's id, and a question while another is open."""
        if not isinstance(run_id, str) or not self._busy.acquire(blocking=False):
            return
        run = next((run for run in runs if run.run_id == run_id), None)
        threading.Thread(target=self._run, args=(run_id, run), daemon=True, name="where").start()

    def _run(self, run_id: str, run: Run | None) -> None:
        try:
            found = _answer(run_id, run)
        finally:
            self._busy.release()
        self._deliver(found)


def _answer(run_id: str, run: Run | None) -> Whereabouts:
    if run is None:
        return Whereabouts(run_id, run_id, time.time(), problem="This run is not listed any more")
    try:
        from gputop.where.asking import ask_run

        return ask_run(run)
    except Exception as error:  # noqa: BLE001 - the screen shows the error, and the next question is still answered
        return Whereabouts(run_id, run.name, time.time(), problem=f"gputop could not ask: {describe_unexpected(error)}")
