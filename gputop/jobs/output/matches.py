"""Finds known error texts in the output of jobs while they run, for the snapshots.

Each poll reads a bounded number of bytes for a bounded time, and the next one continues. The job itself is not touched.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from gputop.doctor.logs.meaning.explain import explain
from gputop.doctor.logs.meaning.first_failure import without_stops
from gputop.doctor.logs.meaning.observed import UNKNOWN_ID
from gputop.doctor.logs.observation import Observation
from gputop.doctor.logs.patterns.pattern import REASON
from gputop.doctor.logs.scan import LogScan
from gputop.errors import UsageError
from gputop.jobs import record, store
from gputop.jobs.output import logs
from gputop.jobs.output.scan import ScannedLog, scanned_source
from gputop.jobs.store import Job
from gputop.snapshot import JobState, LogMatch

_Item = TypeVar("_Item")
READ_BYTES = 1 << 18
"""The most that one poll reads of one file."""
PIECE_BYTES = 1 << 14
"""Read at once: a scan takes 70 ms per MiB of ordinary lines, but 1.1 s per MiB if each line holds an error."""
TICK_BYTES = 1 << 20
"""The most that one poll reads in all."""
TICK_S = 0.05
"""A poll reads nothing more once it has taken this long: a screen or a recorder waits for it."""
LIST_S = 1.0
"""How often to list the jobs."""
RECENT_S = 600.0
"""Jobs that ended longer ago are left out; the launch screen and ``gputop logs`` still explain them."""
JOBS_MAX = 16
"""Maximum number of jobs that are followed, the newest first."""
MATCHES_MAX = 24
"""Matches kept for one job, including the first failure."""
LINE_CHARS = 500
"""A longer line is cut."""


@dataclass(slots=True)
class _Followed:
    """A job whose output is followed. ``done``: it has ended, and its output was read to the end."""

    files: dict[Path, ScannedLog] = field(default_factory=dict)
    matches: tuple[LogMatch, ...] = ()
    known: tuple[int, ...] = ()
    state: JobState | None = None
    done: bool = False


class Readable(Protocol):
    """A file that is read on with each poll. ``at_end``: its last read left nothing unread."""

    at_end: bool

    def read(self, max_bytes: int, finished: bool) -> int:
        """Read at most ``max_bytes`` more and return how many; ``finished``: no more will be written."""


class Budget:
    """How much one poll may still read of all files, in bytes and in seconds of ``clock``."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin now."""
        self._clock = clock
        self._until = clock() + TICK_S
        self._left = TICK_BYTES

    def read(self, file: Readable, most: int, finished: bool) -> int:
        """Scan at most ``most`` bytes more of a file and return how many; ``finished``: no more will be written."""
        spent = 0
        while self._left > 0 and self._clock() < self._until:
            size = file.read(min(PIECE_BYTES, most - spent, self._left), finished)
            spent += size
            self._left -= size
            if not size or file.at_end or spent >= most:
                return spent
        file.at_end = False
        return spent


class LogMatches:
    """The known error texts in the output of jobs that run or ended recently."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Nothing is read before ``poll``; ``clock`` is in seconds."""
        self._clock = clock
        self._polls = 0
        self._followed: dict[str, _Followed] = {}
        self._jobs: list[Job] = []
        self._listed_at: float | None = None

    def poll(self) -> tuple[LogMatch, ...]:
        """Read the next bytes and return all matches, each job's first failure first. Never raises."""
        now = self._clock()
        if self._listed_at is None or now - self._listed_at >= LIST_S:
            self._listed_at = now
            self._jobs = [job for job in store.list_jobs() if _is_recent(job)][:JOBS_MAX]
            for gone in self._followed.keys() - {job.id for job in self._jobs}:
                del self._followed[gone]
        budget = Budget(self._clock)
        self._polls += 1
        for job in rotated(self._jobs, self._polls):
            followed = self._followed.setdefault(job.id, _Followed())
            if not followed.done:
                _read(job, followed, budget, self._polls)
        return tuple(match for job in self._jobs for match in self._followed[job.id].matches)


def _is_recent(job: Job) -> bool:
    return job.active or (job.ended_at is not None and time.time() - job.ended_at <= RECENT_S)


def rotated(items: Iterable[_Item], turn: int) -> list[_Item]:
    """Return the items, each turn from another one on: a poll may have no time for the last ones."""
    items = list(items)
    at = turn % len(items) if items else 0
    return items[at:] + items[:at]


def _read(job: Job, followed: _Followed, budget: Budget, turn: int) -> None:
    """Read the next bytes of a job's files."""
    with contextlib.suppress(UsageError, OSError):  # the job's directory is gone
        for source in logs.sources(job.id):
            if source.path not in followed.files:
                followed.files[source.path] = scanned_source(source)
    for file in rotated(followed.files.values(), turn):
        budget.read(file, READ_BYTES, finished=not job.active)
    followed.done = not job.active and all(file.at_end for file in followed.files.values())
    scans = [file.scan for file in followed.files.values()]
    known = tuple(len(scan.observations) for scan in scans)
    if known != followed.known or followed.done or job.state != followed.state:
        followed.known, followed.state = known, job.state
        followed.matches = matches_of(job, scans)


def matches_of(job: Job, scans: list[LogScan]) -> tuple[LogMatch, ...]:
    """Return one match for each text and rank, the root cause first.

    Texts that a failed job certainly survived are left out, provided that another text explains its end; so is what its
    programs print of a stop that was asked for.
    """
    failed = not job.active and job.state != "finished"
    # The record of the request is there before any text about the stop; ``job`` may be a second old.
    asked = job.stop_asked or (job.directory / record.STOP).exists()
    explanation = explain(scans, failed=failed, asked=asked)
    observations = [item for scan in scans for item in scan.observations]
    if asked:
        observations = without_stops(observations)
    survived = failed and any(item.failure for item in observations)
    kept = [item for item in observations if item.pattern is not None and not (survived and item.went_on)]
    return of_run(job.run_id, job.id, job.state, explanation.root, kept, explanation.unproven)


def of_run(
    run_id: str | None,
    job_id: str | None,
    state: JobState,
    root: Observation | None,
    others: Iterable[Observation],
    unproven: bool = False,
) -> tuple[LogMatch, ...]:
    """Return one match for each text and rank of a run's output, the root cause first; ``unproven``: see ``LogMatch``."""
    kept: dict[tuple[str, int | None], Observation] = {}
    explained = [seen for seen in others if seen.pattern is None or seen.pattern.kind != REASON]  # alone a reason says nothing
    for seen in ([root] if root is not None else []) + explained:
        kept.setdefault((_name(seen), seen.rank), seen)
    return tuple(_match(run_id, job_id, state, seen, unproven) for seen in list(kept.values())[:MATCHES_MAX])


def _name(seen: Observation) -> str:
    return seen.pattern.id if seen.pattern is not None else UNKNOWN_ID


def _match(run_id: str | None, job_id: str | None, state: JobState, seen: Observation, unproven: bool) -> LogMatch:
    return LogMatch(
        pattern=_name(seen),
        cause=seen.pattern.cause if seen.pattern is not None else None,
        line=seen.line[:LINE_CHARS],
        run_id=run_id,
        job_id=job_id,
        rank=seen.rank,
        file=seen.file,
        line_number=seen.line_number or None,
        time=seen.time,
        cascade=seen.pattern is not None and seen.pattern.cascade,
        job_state=state,
        where=seen.where,
        followed=seen.followed,
        unproven=unproven,
    )
