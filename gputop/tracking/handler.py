"""``logging.getLogger().addHandler(gputop.GputopHandler())`` records log messages as the run's text."""

from __future__ import annotations

import logging
import time

from gputop.tracking import session
from gputop.tracking.journal.harmless import harmless
from gputop.tracking.journal.notice import reason, warn
from gputop.tracking.run import Run

MESSAGES_PER_S = 200
"""Messages above this rate are dropped and counted, so that logging in an inner loop does not fill the journal."""


@harmless
class GputopHandler(logging.Handler):
    """Records messages in ``run``, or by default in the active run."""

    def __init__(self, level: int | str = logging.NOTSET, run: Run | None = None) -> None:
        try:
            super().__init__(level if issubclass(type(level), int | str) else logging.NOTSET)
        except Exception as error:  # noqa: BLE001 - a level may be any object
            super().__init__()
            warn(f"GputopHandler records messages of all levels ({reason(error)}).")
        self._run = run if issubclass(type(run), Run) else None
        self._second = 0
        self._taken = self._dropped = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Record one message with its level; never raises into the code that logs."""
        try:
            second = int(time.monotonic())
            if second != self._second:
                dropped, self._dropped = self._dropped, 0
                self._second, self._taken = second, 0
                if dropped:
                    self._target().text(f"{dropped} messages beyond {MESSAGES_PER_S} per second were dropped", "warning")
            if self._taken >= MESSAGES_PER_S:
                self._dropped += 1
                return
            self._taken += 1
            self._target().text(self.format(record), record.levelname.lower())
        except Exception:  # noqa: BLE001 - by logging's contract a handler reports its own errors
            self.handleError(record)

    def _target(self) -> Run:
        return self._run if self._run is not None else session.current()
