"""Runs of launched jobs that keep no journal, made from what they print (``gputop.tracking.printed``).

A job's output lies in files, so the one who looks follows them: nothing is added to the job, and its supervisor stays small.
Such a run carries the fact ``source``: "log". It ends for good when the job's own journal appears.

A printed line has no time of its own: its points carry the time at which it was read, or, for what was written before the
first look, the time at which the file was last written.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from gputop.errors import UsageError
from gputop.jobs import record, store
from gputop.jobs.output import logs
from gputop.jobs.output.follower import METRICS, FileFollower
from gputop.jobs.store import Job
from gputop.places import runs_dir
from gputop.snapshot import Points, Rank, Run
from gputop.tracking.journal.places import archive_roots
from gputop.tracking.printed import SOURCE, Transcript
from gputop.tracking.reader.decimate import Decimator
from gputop.tracking.reader.runs import POLL_POINTS, RunUpdate

JOURNAL_PATIENCE_S = 10.0
"""How long a job has, from its start, to begin a journal: importing torch takes seconds."""
RECENT_JOBS = 20
READ_BYTES = 1 << 20
"""Read of one file at one look, at most; the rest follows."""
_STATES = {"stopped": "killed", "lost": "killed"}
"""A job's states in a run's words, where they differ."""


class _Log:
    """One file of a job's output, and what its lines say."""

    def __init__(self, path: Path) -> None:
        self.transcript = Transcript()
        self.at_end = False
        self._file = FileFollower(path, METRICS)
        self._past = True
        """Whether what is read was written before the first look."""

    def read(self, finished: bool) -> tuple[list[tuple[int, dict[str, float]]], float]:
        """Return the steps and metrics of the new lines, and the time that they carry."""
        look = self._file.look(READ_BYTES, finished)
        if look.restarted:
            self.transcript = Transcript()
        if look.skipped_bytes:
            self.transcript.skip()
        steps = list(self.transcript.feed(look.data))
        if look.complete:
            steps += self.transcript.end()
        at = look.written_at if self._past and look.written_at is not None else time.time()
        self._past = self._past and not (look.at_end and look.written_at is not None)
        self.at_end = look.at_end
        return steps, at


@dataclass(slots=True)
class _Told:
    """What one rank has printed so far."""

    files: dict[Path, _Log] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    fresh: dict[str, Decimator] = field(default_factory=dict)
    step: int | None = None
    total_steps: int | None = None
    last_log_at: float | None = None

    def poll(self, ended: bool) -> bool:
        """Read on in every file and return whether all are at their end; ``ended``: nothing more will be written."""
        for file in self.files.values():
            steps, at = file.read(ended)
            for step, metrics in steps:
                self.step, self.last_log_at = max(step, self.step or 0), at
                self.metrics.update(metrics)
                for name, value in metrics.items():
                    series = self.fresh.setdefault(name, Decimator(POLL_POINTS))
                    series.extend((step,), (int(at * 1e9),), (value,), _seconds)
            self.total_steps = file.transcript.total_steps or self.total_steps
        return all(file.at_end for file in self.files.values())


def _seconds(time_ns: int) -> float:
    return time_ns / 1e9


@dataclass(slots=True)
class _Followed:
    """A job whose output is read."""

    pid: int | None = None
    ranks: dict[int, _Told] = field(default_factory=dict)
    done: bool = False


class PrintedRuns:
    """Follows the output of jobs without a journal: the newest ones, and all that are active."""

    def __init__(self, patience_s: float = JOURNAL_PATIENCE_S) -> None:
        """Nothing is read before ``poll``."""
        self._patience_s = patience_s
        self._followed: dict[str, _Followed] = {}

    def poll(self, known: Collection[str]) -> RunUpdate:
        """Return the runs that only their output tells of; ``known`` are the ids of runs with a journal. Never raises."""
        runs: list[Run] = []
        points: list[Points] = []
        for place, job in enumerate(store.list_jobs()):
            if job.id in known or not (job.active or place < RECENT_JOBS or job.id in self._followed):
                self._followed.pop(job.id, None)
                continue
            if time.time() - (job.started_at or 0.0) < self._patience_s or _has_journal(job.id):
                continue
            followed = self._followed.setdefault(job.id, _Followed())
            self._read(job, followed)
            if any(told.metrics for told in followed.ranks.values()):
                runs.append(_run(job, followed))
                points += _points(job.id, followed)
        return RunUpdate(tuple(runs), tuple(points))

    def _read(self, job: Job, followed: _Followed) -> None:
        if followed.done:
            return
        try:
            found = logs.sources(job.id)
        except UsageError:  # the job's directory is gone
            return
        alone = len(found) == 1
        if alone and followed.pid is None:
            followed.pid = ((record.read_json(job.directory / record.STATUS) or {}).get("child") or {}).get("pid")
        for source in found:
            if source.rank is None and not alone:
                # The ranks have files of their own now: what the launcher says is not a rank's.
                if any(source.path in told.files for told in followed.ranks.values()):
                    followed.ranks.clear()
                    followed.pid = None
            else:
                told = followed.ranks.setdefault(source.rank or 0, _Told())
                told.files.setdefault(source.path, _Log(source.path))
        at_end = [told.poll(not job.active) for told in followed.ranks.values()]
        followed.done = not job.active and all(at_end)


def _has_journal(run_id: str) -> bool:
    return any((root / run_id).is_dir() for root in archive_roots(runs_dir()))


def _run(job: Job, followed: _Followed) -> Run:
    state = _STATES.get(job.state, job.state)
    ranks = tuple(
        Rank(
            rank=number,
            pid=followed.pid,
            hostname=job.hostname,
            world_size=len(followed.ranks),
            state=state,
            exit_code=job.exit_code,
            step=told.step,
            last_log_at=told.last_log_at,
            metrics=dict(told.metrics),
            facts={"source": SOURCE, **({"progress": {"total_steps": told.total_steps}} if told.total_steps else {})},
        )
        for number, told in sorted(followed.ranks.items())
    )
    return Run(
        run_id=job.id,
        name=job.name,
        job_id=job.id,
        state=state,
        created_at=job.started_at,
        ended_at=job.ended_at,
        world_size=len(ranks),
        config=dict(job.values),
        command=job.argv,
        ranks=ranks,
    )


def _points(run_id: str, followed: _Followed) -> list[Points]:
    result = []
    for number, told in sorted(followed.ranks.items()):
        fresh, told.fresh = told.fresh, {}
        for name, series in fresh.items():
            kept = series.points()
            columns = tuple(zip(*kept, strict=True))
            result.append(Points(run_id, number, name, *columns[1:]))
    return result
