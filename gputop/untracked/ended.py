"""Untracked runs that have ended while they were watched: what they were, when, their last values, and their errors.

How they ended is unknown, because their processes are not children of gputop; only their output may show a failure.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from gputop.process import DEAD_STATES, ProcessRun
from gputop.snapshot import LogMatch, Run
from gputop.sources.host import procfs
from gputop.untracked.followed import FollowedRun

KEPT = 8
"""Number of runs that are kept, the newest."""
WATCHED_MIN_S = 30.0
"""A single process that was seen for less time, without a curve, was hardly a training (our choice)."""


@dataclass(slots=True)
class Ended:
    """A run that has ended. ``run`` is as it was at the end."""

    run: ProcessRun
    followed: FollowedRun | None
    """Who reads the last that it wrote; None once that is done."""
    curves: dict[str, Run] = field(default_factory=dict)
    """Its curves, by run id."""


@dataclass(slots=True)
class _Watched:
    """A run whose end is awaited."""

    run: ProcessRun
    ticks: dict[int, int]
    """PID of each rank -> when it started, in clock ticks since boot: a reused PID belongs to another process."""
    since_s: float
    followed: FollowedRun | None = None
    curves: dict[str, Run] = field(default_factory=dict)


class EndedRuns:
    """Notices the end of runs by their processes: a run may also be out of sight because it computes nothing for a while."""

    def __init__(self) -> None:
        self._watched: dict[str, _Watched] = {}
        self._ended: dict[str, Ended] = {}

    def __iter__(self) -> Iterator[Ended]:
        """Yield the newest first."""
        return reversed(list(self._ended.values()))

    def see(
        self,
        found: Sequence[ProcessRun],
        runs: Mapping[str, Run],
        followed: Mapping[str, FollowedRun],
        tracked: Collection[int],
    ) -> None:
        """Take the untracked runs of a poll.

        Args:
            found: the runs with their curves.
            runs: the curves, by run id.
            followed: who reads a run, by its key.
            tracked: processes of tracked runs: a run to which one of them belongs has not ended.
        """
        now_s = time.monotonic()
        listed = {rank.pid for run in found for rank in run.ranks}
        for run in found:
            known = self._watched.get(run.key)
            if known is not None and run.launcher is None and known.run.started_at != run.started_at:
                self._end(known)  # the PID that names it was reused
                known = None
            if known is None:
                known = self._watched[run.key] = _Watched(run, {}, now_s)
            known.run, known.followed = run, followed.get(run.key, known.followed)
            known.curves = {run_id: runs[run_id] for run_id in run.curve_ids if run_id in runs}
            pids = {rank.pid for rank in run.ranks}
            if pids != known.ticks.keys():
                known.ticks = {pid: ticks for pid in pids if (ticks := _started(pid)) is not None}
            self._ended.pop(run.key, None)
        out_of_sight = self._watched.keys() - {run.key for run in found}
        for key in out_of_sight:
            known = self._watched[key]
            if not (listed.isdisjoint(known.ticks) and known.ticks.keys().isdisjoint(tracked)):
                del self._watched[key]
            elif not any(_started(pid) == ticks for pid, ticks in known.ticks.items()):
                del self._watched[key]
                self._end(known)

    def _end(self, known: _Watched) -> None:
        run, watched_s = known.run, time.monotonic() - known.since_s
        if run.starting or not (known.curves or len(run.ranks) > 1 or watched_s >= WATCHED_MIN_S):
            return
        at = time.time()
        self._ended[run.key] = Ended(
            replace(run, ended_at=at, ranks=tuple(replace(rank, place=None) for rank in run.ranks)),
            known.followed,
            curves={run_id: as_ended(curve, at) for run_id, curve in known.curves.items()},
        )
        for key in list(self._ended)[:-KEPT]:
            del self._ended[key]


def as_ended(curve: Run, at: float | None) -> Run:
    """Return the curve of a run that ended ``at``: wall clock, in seconds."""
    return replace(curve, state="ended", ended_at=at, ranks=tuple(replace(rank, state="ended") for rank in curve.ranks))


def _started(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None if it has ended."""
    try:
        found = procfs.read_stat(pid)
    except OSError:
        return None
    return found.start_ticks if found is not None and found.state not in DEAD_STATES else None


class EndedOutput(NamedTuple):
    """What a run that has ended printed to shared output. ``is_read``: whether nothing more of its output will be read."""

    run_id: str
    texts: tuple[LogMatch, ...]
    is_read: bool


class SharedOutput:
    """Whose error a text is in output that several runs print to: the run that ended with it, or one of those that did.

    While all of these runs live, the text belongs to none of them, and once it was said of one run, it is not said of another.
    """

    def __init__(self) -> None:
        """No text is known yet."""
        self._owners: dict[tuple[str, str], str] = {}

    def texts(self, ended: Sequence[EndedOutput], any_alive: bool) -> tuple[LogMatch, ...]:
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
