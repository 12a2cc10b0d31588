"""Runs of jobs that write no journal, made from what they print (``gputop.tracking.printed``).

The reader follows the job's output files, so neither the job nor its supervisor does any of the work. Such a run carries the
fact ``source``: "log". It disappears as soon as the job's own journal exists.

Printed lines carry no time. Their points carry the time at which the line was read, or, for lines written before the first
poll, the time at which the file was last written.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from gputop.errors import UsageError
from gputop.facts.table import Progress
from gputop.jobs import store
from gputop.jobs.output import logs
from gputop.jobs.output.follower import METRICS, FileFollower
from gputop.jobs.store import Job
from gputop.places import runs_dir
from gputop.snapshot import JobState, Points, Rank, Run, RunState
from gputop.tracking.journal.places import archive_roots
from gputop.tracking.printed import SOURCE, Transcript
from gputop.tracking.reader.decimate import Decimator
from gputop.tracking.reader.runs import POLL_POINTS, RunUpdate

JOURNAL_PATIENCE_S = 10.0
"""How long to wait after a job's start for its journal: importing torch takes seconds."""
RECENT_JOBS = 20
READ_BYTES = 1 << 20
"""The most that one poll reads of one file."""
_RUN_STATES: Mapping[JobState, RunState] = {
    "waiting": "starting",
    "starting": "starting",
    "running": "running",
    "finished": "finished",
    "failed": "failed",
    "stopped": "stopped",
    "killed": "killed",
    "lost": "killed",
}
"""A job's states in a run's words."""


class _Log:
    """One file of a job's output, and the parser of its lines."""

    def __init__(self, path: Path) -> None:
        self.transcript = Transcript()
        self.at_end = False
        self._file = FileFollower(path, METRICS)
        self._past = True
        """Whether the bytes being read were written before the first poll."""

    def read(self, finished: bool) -> tuple[list[tuple[int, dict[str, float]]], float]:
        """Return the steps and metrics of the new lines, and the time to record for them."""
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
class _PrintedRank:
    """What one rank has printed so far."""

    files: dict[Path, _Log] = field(default_factory=dict)
    metrics: dict[str, float] = field(default_factory=dict)
    fresh: dict[str, Decimator] = field(default_factory=dict)
    step: int | None = None
    total_steps: int | None = None
    last_log_at: float | None = None

    def poll(self, ended: bool) -> bool:
        """Read the next bytes of each file; return whether all are at their end. ``ended``: no more will be written."""
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
    """A job whose output is followed."""

    pid: int | None = None
    ranks: dict[int, _PrintedRank] = field(default_factory=dict)
    done: bool = False


class PrintedRuns:
    """Follows the output of jobs without a journal: all active ones and the newest others."""

    def __init__(self, patience_s: float = JOURNAL_PATIENCE_S) -> None:
        """Nothing is read before ``poll``."""
        self._patience_s = patience_s
        self._followed: dict[str, _Followed] = {}

    def poll(self, known: Collection[str]) -> RunUpdate:
        """Return the runs that are known only from their output. ``known``: ids of runs with a journal. Never raises."""
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
            if any(printed.metrics for printed in followed.ranks.values()):
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
        single_file = len(found) == 1
        if single_file and followed.pid is None:
            followed.pid = job.command_pid
        for source in found:
            if source.rank is None and not single_file:
                # Once the ranks have their own files, the launcher's output belongs to no rank.
                if any(source.path in printed.files for printed in followed.ranks.values()):
                    followed.ranks.clear()
                    followed.pid = None
            else:
                printed = followed.ranks.setdefault(source.rank or 0, _PrintedRank())
                printed.files.setdefault(source.path, _Log(source.path))
        at_end = [printed.poll(not job.active) for printed in followed.ranks.values()]
        followed.done = not job.active and all(at_end)


def _has_journal(run_id: str) -> bool:
    return any((root / run_id).is_dir() for root in archive_roots(runs_dir()))


def _run(job: Job, followed: _Followed) -> Run:
    state = _RUN_STATES.get(job.state) or cast(RunState, job.state)
    ranks = tuple(
        Rank(
            rank=number,
            pid=followed.pid,
            hostname=job.hostname,
            world_size=len(followed.ranks),
            state=state,
            exit_code=job.exit_code,
            step=printed.step,
            last_log_at=printed.last_log_at,
            metrics=dict(printed.metrics),
            facts={
                "source": SOURCE,
                **({"progress": Progress.filled(total_steps=printed.total_steps)} if printed.total_steps else {}),
            },
        )
        for number, printed in sorted(followed.ranks.items())
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
    for number, printed in sorted(followed.ranks.items()):
        fresh, printed.fresh = printed.fresh, {}
        for name, series in fresh.items():
            kept = series.points()
            columns = tuple(zip(*kept, strict=True))
            result.append(Points(run_id, number, name, *columns[1:]))
    return result
