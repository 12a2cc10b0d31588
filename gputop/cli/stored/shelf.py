"""Reads the runs of this user, all at once, for a command. A run that cannot be read does not hide the others."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

from gputop.errors import GputopError, UsageError, describe_unexpected
from gputop.snapshot import LIVE_STATES, Points, Run
from gputop.terminal_text import printable
from gputop.tracking.reader.runs import RunReader
from gputop.tracking.reader.unreadable import SILENCE, labels_sentence, sentence
from gputop.tracking.reader.update import RunUpdate

EVERYTHING = 1 << 62
"""A number of points or runs that means no decimation and no limit."""


class Shelf:
    """All runs of this user for one command, and those that cannot be read."""

    def __init__(self, *, recent_runs: int = EVERYTHING, backlog_points: int | None) -> None:
        self.reader = RunReader(recent_runs=recent_runs, backlog_points=backlog_points)
        self._lost: dict[str, str] = {}

    def poll(self) -> RunUpdate:
        """Read what is new; a run that fails does not hide the others."""
        return self.reader.poll(lambda run_id, error: self._lost.setdefault(run_id, describe_unexpected(error)))

    def read_all(self) -> tuple[Run, ...]:
        """Return all runs with everything in their journals; a single poll reads only a limited amount."""
        began = time.time()
        update = self.poll()
        while any(points.times[0] <= began for points in update.points):
            update = self.poll()
        return update.runs

    def unreadable(self) -> dict[str, str]:
        """Return run id -> why the run, or one of its ranks, cannot be read."""
        return {**self._lost, **self.reader.unreadable()}

    def tell_unreadable(self, *run_ids: str, with_labels: bool = True) -> None:
        """Report on standard error what of the runs cannot be read; only of those in ``run_ids`` if any are given."""
        labels = self.reader.unreadable_labels() if with_labels else {}
        for say, found in ((sentence, self.unreadable()), (labels_sentence, labels)):
            for run_id, why in found.items():
                if not run_ids or run_id in run_ids:
                    print(printable(f"gputop: {say(run_id, why)} {SILENCE}"), file=sys.stderr)

    def live(self, name: str | None) -> Run:
        """Return the run with this id or name, or the newest live one.

        Raises:
            UsageError: there is no such run.
            GputopError: it cannot be read.
        """
        found = self.poll().runs
        if name is not None:
            return self.find(name, found)
        run = next((run for run in found if run.state in LIVE_STATES), None)
        if run is None:
            raise UsageError("There is no live run.", "gputop run -- CMD starts one that gputop tracks.")
        return run

    def find(self, name: str, found: tuple[Run, ...], *, with_labels: bool = True) -> Run:
        """Return the run with this id, or the newest with this name; report what of it cannot be read.

        Raises:
            UsageError: there is no such run.
            GputopError: it cannot be read.
        """
        by_id = [run for run in found if run.run_id == name]
        by_name = [run for run in found if run.name == name]
        if by_id or by_name:
            run = (by_id or by_name)[0]
            self.tell_unreadable(run.run_id, with_labels=with_labels)
            return run
        why = self.unreadable().get(name)
        if why is not None:
            raise GputopError(sentence(name, why), SILENCE)
        raise UsageError(f"There is no run {name!r}.", "gputop runs lists them.")


def find_run(name: str) -> Run:
    """Return the run with this id, or the newest with this name.

    Raises:
        UsageError: there is no such run.
        GputopError: it cannot be read.
    """
    shelf = Shelf(backlog_points=None)
    return shelf.find(name, shelf.poll().runs)


def points_of(shelf: Shelf, found: tuple[Points, ...], run_id: str) -> Iterator[Points]:
    """Yield the points of a run: those in ``found``, then all others that its journals contained when this was called."""
    began = time.time()
    while any(points.times[0] <= began for points in found):
        yield from (points for points in found if points.run_id == run_id)
        found = shelf.poll().points
