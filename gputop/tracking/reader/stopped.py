"""Whether the user asked to stop a run, from its job's record (``jobs/record.py``), which is only read here.

A rank that ended by a signal cannot tell a requested stop from an accident; the job that gputop launched can.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace

from gputop.places import jobs_dir
from gputop.snapshot import FAILED_STATES, Run

_known: dict[str, bool] = {}
"""Ended jobs, whose answer no longer changes."""


def asked_to_stop(job_id: str) -> bool:
    """Return whether the job's record holds a request to stop; False if it cannot be read."""
    if job_id in _known:
        return _known[job_id]
    if not job_id or os.sep in job_id or job_id.startswith("."):
        return False
    try:
        handle = os.open(jobs_dir() / job_id / "status.json", os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        with os.fdopen(handle, encoding="utf-8") as file:
            status = json.load(file)
    except (OSError, ValueError, RecursionError):
        return False
    asked = isinstance(status, dict) and bool(status.get("asked"))
    if isinstance(status, dict) and status.get("state") == "ended":
        _known[job_id] = asked
    return asked


def as_stopped(run: Run) -> Run:
    """Return the run with the state "stopped", for itself and its failed ranks, if its job was stopped on request."""
    if run.state not in FAILED_STATES or run.job_id is None or not asked_to_stop(run.job_id):
        return run
    ranks = tuple(replace(rank, state="stopped") if rank.state in FAILED_STATES else rank for rank in run.ranks)
    return replace(run, state="stopped", ranks=ranks)
