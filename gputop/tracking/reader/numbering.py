"""The newest steps of one rank, in the script's numbers and in optimizer steps, and when the last one was recorded."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.losses import AUTOMATIC_PREFIX, are_automatic, names_a_loss
from gputop.tracking.journal import format as form


class Numbering:
    """Numbers the records of one rank. A script that opened the run numbers its own values as it likes."""

    def __init__(self) -> None:
        self.step: int | None = None
        self.optimizer_step: int | None = None
        self.last_step_at: float | None = None
        """Wall clock of the last record of a step. A thread beside the training may log on while no step ends: once the script
        has logged a training loss, only such records count of its own."""
        self.is_opened_by_script = False
        self._own_step: int | None = None
        self._newest_step: int | None = None
        self._automatic_step: int | None = None
        self._logs_a_loss = False

    def add(self, names: Sequence[str], newest: int, at: float | None) -> None:
        """Process records of the same names.

        Args:
            names: The names of their values.
            newest: The newest of their steps.
            at: When the last of them was made, wall clock in seconds; None if that is unknown.
        """
        if all(name.startswith(form.PHASE) for name in names):
            return
        automatic = are_automatic(names)
        self._newest_step = newest if self._newest_step is None else max(self._newest_step, newest)
        if automatic:
            is_a_step = newest != self._automatic_step
            self._automatic_step = newest if self._automatic_step is None else max(self._automatic_step, newest)
            self.is_opened_by_script |= any(name.startswith(AUTOMATIC_PREFIX) for name in names)
        else:
            has_loss = any(map(names_a_loss, names))
            self._logs_a_loss |= has_loss
            # A script may log its losses by epoch, so that many have the same step.
            is_a_step = has_loss or (not self._logs_a_loss and newest not in (self._own_step, self._automatic_step))
            self._own_step = newest if self._own_step is None else max(self._own_step, newest)
        if self.is_opened_by_script and self._own_step is not None:
            self.step, self.optimizer_step = self._own_step, self._automatic_step
        else:
            self.step = self._newest_step
        if is_a_step:
            self.last_step_at = at
