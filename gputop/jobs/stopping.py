"""Ends jobs: asks the supervisor, or Slurm, and sweeps up from outside where neither answers."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Sequence

from gputop.errors import GputopError, UsageError
from gputop.jobs import checked, identity, record, slurm, spawn, store
from gputop.jobs.job import Job
from gputop.jobs.supervisor import DEFAULT_GRACE_S, KILL_PATIENCE_S, TERM_PATIENCE_S, sweep

ANSWER_PATIENCE_S = 3.0
"""How long a supervisor may take to record a stop request. After that, its job is stopped from outside."""


def request_stop(job_id: str, grace_s: float = DEFAULT_GRACE_S) -> None:
    """Request a stop and return immediately. The supervisor sends TERM, waits ``grace_s``, kills, and sweeps.

    Slurm does the same in its own time; it is asked twice, and answers each time within ``slurm.ANSWER_S``.

    Raises:
        UsageError: there is no such job, or it has ended, or Slurm does not list it here.
        GputopError: Slurm does not accept the request, or does not answer.
    """
    job = store.find(job_id)
    if job.slurm is not None:
        _request_end(job, job.slurm.id)
        return
    if job.active and job.hostname != socket.gethostname():
        raise UsageError(f"Job {job_id} runs on {job.hostname}.", "Stop it there.")
    if not job.active and not store.processes(job_id):
        raise _has_ended(job)
    supervisor = checked.read_supervisor(job.directory, checked.read_status(job.directory))
    if not job.active or not supervisor or not identity.is_alive(supervisor):
        spawn.supervisor(job.directory, "--sweep")
        return
    with contextlib.suppress(OSError):  # on a full disk the supervisor uses its default grace
        record.write_json(job.directory / record.STOP, {"grace_s": grace_s, "pid": os.getpid(), "at": time.time()})
    with contextlib.suppress(ProcessLookupError):
        os.kill(supervisor["pid"], signal.SIGTERM)
        os.kill(supervisor["pid"], signal.SIGCONT)  # a suspended supervisor continues, to serve the request


def stop(job_id: str, grace_s: float = DEFAULT_GRACE_S) -> Job:
    """Stop a job and wait until all of its processes have ended.

    Raises:
        UsageError: there is no such job, or it has ended. For a job whose record is gone or damaged, use ``stop_processes``.
        GputopError: some processes cannot be killed.
    """
    request_stop(job_id, grace_s)
    job = store.find(job_id)
    if job.slurm is not None:
        slurm.wait_for_end(job)
        return store.find(job_id)
    asked_at = time.monotonic()
    sweep_s = TERM_PATIENCE_S + KILL_PATIENCE_S
    deadline = asked_at + grace_s + 2 * sweep_s + 5.0
    swept_from_here = False
    while time.monotonic() < deadline:
        job = store.find(job_id)
        # A job without its supervisor is "lost" until the sweep has written "stopped".
        if not job.active and job.state != "lost" and not store.processes(job_id):
            return job
        patience_s = grace_s + sweep_s if job.stop_asked else ANSWER_PATIENCE_S
        if not swept_from_here and job.active and time.monotonic() - asked_at > patience_s:
            spawn.supervisor(job.directory, "--sweep")
            swept_from_here = True
        time.sleep(0.05)
    job = store.find(job_id)
    if job.survivors:
        raise _survived(job_id, job.survivors)
    left = ", ".join(map(str, store.processes(job_id))) or "none of its processes is left, but its end is not recorded"
    raise GputopError(
        f"Job {job_id} has not ended yet: {left}.", f"Run gputop stop {job_id} again, or end these processes with kill."
    )


def stop_processes(job_id: str) -> list[int]:
    """End the processes of a job whose record is gone or damaged; return their PIDs, [] if there are none.

    Raises:
        GputopError: some processes cannot be killed.
    """
    swept, survivors = sweep(job_id)
    if survivors:
        raise _survived(job_id, survivors)
    return swept


def _request_end(job: Job, number: str) -> None:
    """Have Slurm end a job, provided that it lists this very job now."""
    if slurm.is_settled(job):
        raise _has_ended(job)
    is_listed = slurm.ask(job)
    job = store.find(job.id)
    if not job.active and job.state != "lost":
        raise _has_ended(job)
    if not is_listed:
        raise UsageError(
            f"Slurm does not list job {number} here, or lists another job with that number.",
            "It has ended, or it belongs to another cluster: stop it there.",
        )
    slurm.request_end(job)


def _has_ended(job: Job) -> UsageError:
    return UsageError(f"Job {job.id} has ended: {job.state}.", "There is nothing to stop.")


def _survived(job_id: str, pids: Sequence[int]) -> GputopError:
    return GputopError(
        f"Job {job_id} still runs after SIGKILL: {', '.join(map(str, pids))}.",
        "A process that waits in the kernel ends only when that wait does.",
    )
