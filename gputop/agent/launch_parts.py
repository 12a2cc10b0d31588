"""This machine's jobs in launches over several hosts, for the snapshots: before the ranks have met, nothing else shows them."""

from __future__ import annotations

import math
import socket
import time

from gputop.jobs import store
from gputop.jobs.store import Job
from gputop.snapshot import JOB_ENDED_BADLY, LaunchPart

LIST_S = 1.0
"""How often to list the jobs."""
RECENT_S = 900.0
"""Jobs that ended longer ago are left out: torchrun waits ten minutes for the other nodes."""


class LaunchParts:
    """Lists them again with a poll, once a second at most. ``clock`` is in seconds."""

    def __init__(self) -> None:
        self._listed_at = -math.inf
        self._known: tuple[LaunchPart, ...] = ()

    def poll(self) -> tuple[LaunchPart, ...]:
        """Return the jobs that have not ended, or ended badly a short while ago."""
        now = time.monotonic()
        if now - self._listed_at >= LIST_S:
            self._listed_at = now
            here = socket.gethostname()  # a shared home lists the jobs of other machines, too
            listed = [job for job in store.list_jobs() if job.launch_id is not None and job.hostname == here]
            self._known = tuple(_part(job) for job in listed if job.active or _has_just_ended_badly(job))
        return self._known


def _has_just_ended_badly(job: Job) -> bool:
    at = job.ended_at or job.started_at or 0.0
    return job.state in JOB_ENDED_BADLY and time.time() - at < RECENT_S


def _part(job: Job) -> LaunchPart:
    return LaunchPart(job.run_id, job.id, job.name, job.state, job.nodes, job.ended_at)
