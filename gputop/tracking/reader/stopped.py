"""How a run's job ended, from the job's record (``jobs/record.py``), which is only read here.

A rank that was ended by a signal, or without Python noticing, cannot record how; the job that gputop launched knows whether it
was asked to stop, and the exit code or signal of its command.
"""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, replace

from gputop.places import jobs_dir, open_regular
from gputop.snapshot import FAILED_STATES, Rank, Run, RunState, worst
from gputop.tracking.reader.launched import RECORD_BYTES
from gputop.wire import parse_json


@dataclass(frozen=True, slots=True)
class JobEnd:
    """What a job's record says about its end."""

    asked: bool = False
    """Whether the job was asked to stop."""
    pid: int | None = None
    """PID of the command, once the job has ended."""
    exit_code: int | None = None
    """The command's exit code; minus its number for a signal; None if unknown."""


UNKNOWN = JobEnd()
_known: dict[str, JobEnd] = {}
"""Ended jobs, whose record no longer changes."""


def job_end(job_id: str) -> JobEnd:
    """Return what the job's record says about its end; ``UNKNOWN`` if it cannot be read."""
    if job_id in _known:
        return _known[job_id]
    if not job_id or os.sep in job_id or job_id.startswith("."):
        return UNKNOWN
    try:
        with open_regular(jobs_dir() / job_id / "status.json") as file:
            status = parse_json(file.read(RECORD_BYTES))
    except (OSError, ValueError):
        return UNKNOWN
    if not isinstance(status, dict):
        return UNKNOWN
    asked = bool(status.get("asked"))
    if status.get("state") != "ended":
        return JobEnd(asked)
    child = status.get("child")
    pid = child.get("pid") if isinstance(child, dict) else None
    code = status.get("exit_code")
    if code is None and status.get("signal") in signal.Signals.__members__:
        code = -signal.Signals[status["signal"]]
    end = JobEnd(asked, pid if isinstance(pid, int) else None, code if isinstance(code, int) else None)
    _known[job_id] = end
    return end


def as_job_ended(run: Run) -> Run:
    """Return the run with the end that its job's record knows.

    If the job was asked to stop, the run and its failed ranks are "stopped". Else the rank that is the job's command has the
    command's exit code, if its journal does not say how it ended.
    """
    if run.state not in FAILED_STATES or run.job_id is None:
        return run
    end = job_end(run.job_id)
    if end.asked:
        ranks = tuple(replace(rank, state="stopped") if rank.state in FAILED_STATES else rank for rank in run.ranks)
        return replace(run, state="stopped", ranks=ranks)
    if end.exit_code is None or end.pid is None:
        return run
    ranks = tuple(_ended(rank, end.exit_code) if rank.pid == end.pid else rank for rank in run.ranks)
    return replace(run, state=worst(rank.state for rank in ranks), ranks=ranks)


def _ended(rank: Rank, code: int) -> Rank:
    if rank.state != "killed" or rank.exit_code is not None:
        return rank
    state: RunState = "killed" if code < 0 else "failed" if code else "finished"
    return replace(rank, state=state, exit_code=code)
