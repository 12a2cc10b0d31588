"""Runs of jobs that write no journal, made from what they print (``gputop.tracking.printed``).

The reader follows the job's output files, so neither the job nor its supervisor does any of the work. Such a run carries the
fact ``source``: "log". It disappears as soon as the job's own journal exists. Each job of a launch over several hosts has its
own run: its output does not tell which ranks of the whole launch it contains.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import cast

from gputop.errors import UsageError
from gputop.jobs import store
from gputop.jobs.output import logs
from gputop.jobs.output.follower import METRICS
from gputop.jobs.output.printed_rank import PrintedFile, PrintedRank
from gputop.jobs.store import Job
from gputop.places import runs_dir
from gputop.snapshot import JobState, Points, Rank, Run, RunState
from gputop.tracking.journal.places import archive_roots
from gputop.tracking.reader.update import RunUpdate

JOURNAL_PATIENCE_S = 10.0
"""How long to wait after a job's start for its journal: importing torch takes seconds."""
RECENT_JOBS = 20
"""How many of the newest jobs are followed even after they have ended."""
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
"""State of a job -> state of its run."""


@dataclass(slots=True)
class _Followed:
    """A job whose output is followed."""

    pid: int | None = None
    ranks: dict[int, PrintedRank] = field(default_factory=dict)
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
            # A job that Slurm supervises runs on another machine.
            if job.slurm or job.run_id in known or not (job.active or place < RECENT_JOBS or job.id in self._followed):
                self._followed.pop(job.id, None)
                continue
            if time.time() - (job.started_at or 0.0) < self._patience_s or _has_journal(job.run_id):
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
                printed = followed.ranks.setdefault(source.rank or 0, PrintedRank())
                printed.files.setdefault(source.path, PrintedFile(source.path, METRICS))
        at_end = [printed.poll(not job.active, READ_BYTES) for printed in followed.ranks.values()]
        followed.done = not job.active and all(at_end)


def _has_journal(run_id: str) -> bool:
    return any((root / run_id).is_dir() for root in archive_roots(runs_dir()))


def _run(job: Job, followed: _Followed) -> Run:
    state = _RUN_STATES.get(job.state) or cast(RunState, job.state)
    ranks = tuple(
        printed.rank(
            Rank(
                rank=number,
                pid=followed.pid,
                hostname=job.hostname,
                world_size=len(followed.ranks),
                state=state,
                exit_code=job.exit_code,
            )
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
        recipe=job.recipe_id,
    )


def _points(run_id: str, followed: _Followed) -> list[Points]:
    return [points for number, printed in sorted(followed.ranks.items()) for points in printed.take_points(run_id, number)]
