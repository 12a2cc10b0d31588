"""One poll of the launch screen, on a thread: the jobs, the followed log, and why its job failed."""

from __future__ import annotations

from typing import TypeAlias

from textual.message import Message

from gputop.doctor.findings.finding import Finding
from gputop.errors import GputopError
from gputop.jobs import store
from gputop.jobs.output import logs
from gputop.jobs.output.explained import explanation_of
from gputop.over_hosts.watched import HostJobs, HostsLog

Follower: TypeAlias = logs.LogFollower | HostsLog


class JobsPolled(Message):
    """What one poll found: the jobs (None: the poll failed), what ``follower`` read, and why its job failed."""

    def __init__(
        self,
        found: store.Listing | None,
        follower: Follower | None,
        texts: list[str],
        pending: str,
        failure: Finding | None,
        starts: int = 0,
    ) -> None:
        """``starts``: how many jobs the screen had started before the poll began."""
        super().__init__()
        self.found = found
        self.follower = follower
        self.texts = texts
        self.pending = pending
        self.failure = failure
        self.starts = starts


def poll(follower: Follower | None, over: HostJobs | None, starts: int) -> JobsPolled:
    """Poll the jobs, those of hosts or of this machine, and one log; runs on a thread. ``starts``: as in ``JobsPolled``."""
    found: store.Listing | None = None
    texts, pending, failure = [], "", None
    try:
        found = store.read_jobs() if over is None else over.read_jobs()
        if follower is not None:
            texts, pending = follower.poll(), follower.pending
            failure = explanation_of(follower.job_id) if over is None else None
    except (GputopError, OSError) as error:
        texts = [f"gputop: {error}"]
    return JobsPolled(found, follower, texts, pending, failure, starts)
