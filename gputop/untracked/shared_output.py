"""Whose error a text is in output that several runs print to: the run that ended with it, or one of those that did. Pure.

While all of these runs live, the text belongs to none of them, and once it was said of one run, it is not said of another.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gputop.snapshot import LogMatch

_Text = tuple[str, str]
"""The name of a text's pattern, and its line."""


class EndedRun(NamedTuple):
    """A run that printed to shared output and has ended. ``is_read``: whether nothing more of its output will be read."""

    run_id: str
    texts: tuple[LogMatch, ...]
    is_read: bool


class SharedOutput:
    """Remembers of which run each text was said."""

    def __init__(self) -> None:
        """No text is known yet."""
        self._owners: dict[_Text, str] = {}

    def texts(self, ended: Sequence[EndedRun], any_alive: bool) -> tuple[LogMatch, ...]:
        """Return the error texts of runs that have failed, each text once.

        Args:
            ended: the runs that have ended, the first to end first.
            any_alive: whether another run still prints to shared output. It may go on below a text that it caught, so a run
                that has ended is given a text only once its output was read to the end.
        """
        known = {run.run_id for run in ended}
        self._owners = {text: run_id for text, run_id in self._owners.items() if run_id in known}
        found: list[LogMatch] = []
        for run in ended:
            if any_alive and not run.is_read:
                continue
            failed = [match for match in run.texts if match.job_state == "failed"]
            found += [
                match for match in failed if self._owners.setdefault((match.pattern, match.line), run.run_id) == run.run_id
            ]
        return tuple(found)
