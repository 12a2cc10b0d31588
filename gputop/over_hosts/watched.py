"""The jobs of several hosts for a screen: their list, and the output of one job as it grows."""

from __future__ import annotations

import threading
import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from gputop.errors import GputopError
from gputop.hosts.errand import Errands
from gputop.hosts.transport import Transport
from gputop.jobs.job import ACTIVE, SHOWN_FIRST, Job
from gputop.jobs.store import Listing
from gputop.over_hosts.jobs import HostLaunch, jobs_of, launches, may_still_run, stop_over, text_of
from gputop.snapshot import JobState

LIST_S = 5.0
"""How often hosts are asked for their jobs: each time connects to the host and starts gputop there."""
TAKEN_MOST = 500
"""How many lines of a log one poll takes, so that the screen keeps responding."""


@dataclass(slots=True)
class HostJobs:
    """The jobs of ``hosts``. ``stop`` blocks until the hosts answer, so call it in a thread."""

    hosts: tuple[str, ...]
    transport: Transport
    virtual: int | None = None
    """How many virtual GPUs each host uses instead of real ones; None: real GPUs."""
    _listing: Listing = field(default_factory=lambda: Listing((), ()))
    _listed_at: float | None = None
    """By the monotonic clock; None if there is no listing yet, or it is older than a start or stop from here."""
    _changes: int = 0
    _asking: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read_jobs(self) -> Listing | None:
        """Return the jobs of all hosts, each launch as one job, and problems for hosts without an answer; None at first.

        Never waits for a host. Asks again, in a thread, when the listing is older than ``LIST_S``.
        """
        with self._lock:
            is_known = self._listed_at is not None
            if not self._asking and (self._listed_at is None or time.monotonic() - self._listed_at > LIST_S):
                self._asking = True
                threading.Thread(target=self._ask, daemon=True, name="hosts-jobs").start()
            return self._listing if is_known else None

    def _ask(self) -> None:
        changes = self._changes
        try:
            found, ends = jobs_of(self.hosts, self.transport)
            problems = [GputopError(end.sentence(host)) for host, end in ends.items() if host not in found]
            with self._lock:
                self._listing = Listing(tuple(map(_as_job, launches(found))), tuple(problems))
                self._listed_at = time.monotonic() if changes == self._changes else None
        finally:
            self._asking = False

    def expire_listing(self) -> None:
        """Ask the hosts again at the next call, because a job was started or stopped."""
        with self._lock:
            self._changes += 1
            self._listed_at = None

    def stop(self, job: Job) -> str:
        """Stop a job on its hosts and wait until it has ended; return a sentence.

        Raises:
            GputopError: one of its processes may be left on a host that reports this, or that did not answer in time.
        """
        notes: list[str] = []
        left = stop_over(job.hosts or self.hosts, self.transport, job.id, notes.append)
        self.expire_listing()
        if left:
            said = [*(end.sentence(host) for host, end in left.items()), *(f"{line}." for line in notes)]
            raise GputopError(" ".join(said), may_still_run(left, self.transport, job.id))
        return f"Job {job.id} has ended on {', '.join(job.hosts)}."

    def follow(self, job: Job) -> HostsLog:
        """Return a reader of what a job prints on its hosts."""
        return HostsLog(job, self.transport)


class HostsLog:
    """The lines that a job prints on its hosts, each after the name of its host. Reads from the first poll until ``close``."""

    pending = ""
    """Always empty: hosts send whole lines."""

    def __init__(self, job: Job, transport: Transport) -> None:
        self.job_id = job.id
        # Each host of a launch has a log of its own. A single job that several hosts list has one log, in a shared home.
        hosts = job.hosts if job.launch_id is not None else job.hosts[:1]
        self._errands = Errands(transport, hosts, ["logs", job.id, "--follow", "--until-closed"])
        self._started = False
        self._closed = False
        self._said: deque[str] = deque()

    def poll(self) -> list[str]:
        """Return the lines that have arrived since the last poll."""
        if self._closed:
            return []
        if not self._started:
            self._started = True
            self._errands.start()
        lines: list[str] = []
        while len(lines) < TAKEN_MOST and (said := self._errands.take(0.0 if lines else 0.05)) is not None:
            if said.end is None:
                lines.append(f"{said.host} | {text_of(said.line)}")
            elif said.end.failure is not None or said.end.code != 0:
                lines.append(f"gputop: {said.end.sentence(said.host)}")
        return lines

    def close(self) -> None:
        """Close the connections; the job continues."""
        self._closed = True
        threading.Thread(target=self._errands.close, daemon=True, name="log-close").start()


def _as_job(launch: HostLaunch) -> Job:
    """Return the jobs of one launch as one job: active if one of them is, else with the worst of their ends."""
    jobs = launch.jobs
    states = {job.state for job in jobs}
    shown = next((state for state in SHOWN_FIRST if state in states), None)
    codes = [job.exit_code for job in jobs if job.exit_code is not None]
    times = [job.ended_at for job in jobs if job.ended_at is not None]
    return Job(
        id=launch.id,
        name=jobs[0].name,
        state=shown or cast(JobState, jobs[0].state),  # a newer gputop there may have other states
        argv=(),
        directory=Path(),
        recipe_id=jobs[0].recipe_id,
        device_uuids=tuple(uuid for job in jobs for uuid in job.device_uuids),
        started_at=min((job.started_at for job in jobs if job.started_at is not None), default=None),
        ended_at=max(times) if len(times) == len(jobs) and states.isdisjoint(ACTIVE) else None,
        exit_code=max(codes, key=abs) if codes and states.isdisjoint(ACTIVE) else None,
        signal=next((job.signal for job in jobs if job.signal), None),
        launch_id=jobs[0].launch_id,
        problem=launch.states_text if len(states) > 1 else next((job.problem for job in jobs if job.problem), None),
        hosts=launch.hosts,
    )
