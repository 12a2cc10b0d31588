"""What ended each attempt of a run that its launcher restarts again and again: the same error each time is no accident.

torchrun with ``--max-restarts`` starts over after each failure. The ranks are alive most of the time, and never get further.
"""

from __future__ import annotations

from gputop.doctor.logs.meaning.habits import shape_of
from gputop.doctor.logs.observation import Observation

ENDS_MIN = 2
"""One failure and a restart is what restarts are for (our choice)."""
LONGER = 2.0
"""A start that lasts this many times as long as the last one has got past the error (our choice)."""
SLACK_S = 20.0
"""And by this much longer: ranks start and import slowly, especially on a busy machine."""


class Ends:
    """The errors that ended all ranks of one run, whoever read them. Two threads may use it."""

    def __init__(self) -> None:
        self._noted: tuple[tuple[object, Observation, float], ...] = ()
        """Replaced as a whole."""

    def note(self, reader: object, root: Observation, now: float) -> None:
        """Take in what ended all ranks.

        Args:
            reader: who read it; the places of two readers differ.
            root: the text.
            now: seconds of a steady clock.
        """
        last = self._noted[-1] if self._noted else None
        if last is None or (last[0], last[1].at) != (reader, root.at):
            self._noted = (*self._noted, (reader, root, now))[-ENDS_MIN:]

    def repeated(self, now: float) -> Observation | None:
        """Return the error that has ended the last starts, as long as the present one may still come to it."""
        if len(self._noted) < ENDS_MIN:
            return None
        *_, (_, before, began), (_, root, ended) = self._noted
        if _shape(before) != _shape(root) or now - ended > LONGER * (ended - began) + SLACK_S:
            return None
        return root


def _shape(item: Observation) -> tuple[str, str | None]:
    return shape_of(item)[2], item.where
