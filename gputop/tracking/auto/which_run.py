"""Which run the steps are written to: the script's, or else one that gputop opens.

A script that ends the run that gputop opened (``gputop.finish()`` or ``run.finish()`` between folds) gets another one at its
next step. If it ends its own, it decides itself when the next one begins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gputop.tracking.run import Run


class WhichRun:
    """Finds the run at each step. Imports what runs need at the first step, because ``import gputop`` must stay cheap."""

    def __init__(self) -> None:
        self._ours: Run | None = None
        self._opened = 0
        """How many runs gputop has opened."""
        self._session: Any = None
        """The module ``gputop.tracking.session``."""

    def is_still(self, run: Run) -> bool:
        """Return whether this is still the process's run."""
        if self._session is None or self._session.current() is not run:
            return False
        return run is not self._ours or not self._session.finished()

    def open(self) -> tuple[Run, bool]:
        """Return the script's run, or open one, and whether gputop opened it."""
        if self._session is None:
            from gputop.tracking import session

            self._session = session
        run: Run = self._session.current()
        if run is not self._ours and self._session.initialized():
            return run, False
        from gputop.tracking.journal.identity import launched_id

        self._opened += 1
        shared = launched_id()
        ours: Run = self._session.init(resume=f"{shared}-{self._opened}" if shared and self._opened > 1 else shared)
        self._ours = ours
        return ours, True

    def send_printed(self, takes: Callable[[dict[str, float]], bool]) -> None:
        """Have the evaluations that the script prints sent there."""
        if self._session is not None:
            self._session.send_printed(takes)
