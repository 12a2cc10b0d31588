"""Starts and lists the jobs of this user. All state is on the disk, so that any later gputop finds it. See ``stopping``."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gputop.errors import GputopError, UsageError
from gputop.jobs import checked, identity, job_processes, record, slurm, spawn
from gputop.jobs.job import ACTIVE, Job, from_records
from gputop.places import jobs_dir, make_private_dir, why_unlisted
from gputop.recipes.catalogue import Launch

__all__ = [
    "ACTIVE",
    "Job",
    "Listing",
    "find",
    "keep",
    "launched",
    "list_jobs",
    "new_id",
    "processes",
    "read_jobs",
    "start",
]

_ended: dict[Path, Job] = {}
_deserted: set[Path] = set()
"""Lost jobs without a process. They never get another one, so /proc is not searched for them again."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The jobs of this user, the newest first, and one error for each damaged job, or for all if none can be listed."""

    jobs: tuple[Job, ...]
    problems: tuple[GputopError, ...]


def new_id() -> str:
    """Return an id that no other job has."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"


def start(
    launch: Launch,
    after: Sequence[str] = (),
    *,
    job_id: str | None = None,
    launch_id: str | None = None,
    nodes: int | None = None,
    until_kept: bool = False,
) -> Job:
    """Start a job and return immediately; the job survives this process.

    It waits until all jobs in ``after`` (ids) have ended, whatever their exit. ``launch_id`` is the id of the launch over
    ``nodes`` hosts that the job belongs to, if any. ``until_kept``: the job is stopped if this process ends, however it ends,
    before it has called ``keep``.

    Raises:
        GputopError: the directory cannot be created, or no process can be started.
    """
    job_id = job_id or new_id()
    directory = jobs_dir() / job_id
    try:
        make_private_dir(jobs_dir())
        make_private_dir(directory / record.RANKS)
        spec = {
            "id": job_id,
            "name": launch.name,
            "recipe_id": launch.recipe_id,
            "argv": list(launch.argv),
            "env": dict(launch.env),
            "cwd": launch.cwd,
            "device_uuids": list(launch.device_uuids),
            "values": dict(launch.values),
            "hostname": socket.gethostname(),
            "launch_id": launch_id,
            "nodes": nodes,
            "created_at": time.time(),
            "after": list(after),
            "starter": identity.describe(os.getpid()) if until_kept else None,
        }
        record.write_json(directory / record.SPEC, spec)
        record.write_json(directory / record.SPAWNED, identity.describe(spawn.supervisor(directory)))
    except OSError as error:
        raise GputopError(
            f"The job cannot be started: {error.strerror or error}.", f"Check that you can write to {jobs_dir()}."
        ) from error
    return find(job_id)


def keep(job: Job) -> None:
    """Let a job that was started ``until_kept`` survive this process.

    Raises:
        GputopError: the disk does not take it.
    """
    try:
        record.write_json(job.directory / record.KEPT, {"at": time.time()})
    except OSError as error:
        raise GputopError(
            f"The job cannot continue: {error.strerror or error}.", f"Check that you can write to {jobs_dir()}."
        ) from error


def list_jobs() -> list[Job]:
    """Return all jobs of this user that can be read, the newest first."""
    return list(read_jobs().jobs)


def read_jobs() -> Listing:
    """Return all jobs of this user, and what cannot be read. Directories without a job are skipped."""
    spawn.reap()
    why = why_unlisted(jobs_dir())
    if why is not None:
        message = f"The jobs cannot be read: {jobs_dir()}: {why}."
        return Listing((), (GputopError(message, "Move that file away, or make it a directory that you can read."),))
    try:
        names = sorted(os.listdir(jobs_dir()), reverse=True)
    except OSError:  # there are none yet
        return Listing((), ())
    found, problems = [], []
    for name in names:
        try:
            found.append(_find(name))
        except checked.UnreadableJobError as error:
            problems.append(error)
        except UsageError:
            continue
    found = _with_left(found)
    return Listing(tuple(sorted(found, key=lambda job: job.started_at or 0.0, reverse=True)), tuple(problems))


def find(job_id: str) -> Job:
    """Return one job.

    Raises:
        UsageError: there is none with this id.
        UnreadableJobError: its records are damaged, or belong to another user.
    """
    return _with_left([_find(job_id)])[0]


def launched(job_id: str) -> list[Job]:
    """Return the job with this id, Slurm number or name; or, for the id of a launch, its jobs on this machine.

    A name is that of the only job that runs under it, or else of the newest one that did.

    Raises:
        UsageError: there is none, or several run under this name.
        UnreadableJobError: its records are damaged, or belong to another user.
    """
    try:
        return [find(job_id)]
    except checked.UnreadableJobError:
        raise
    except UsageError:
        here = socket.gethostname()
        jobs = list_jobs()
        parts = [job for job in jobs if job.launch_id == job_id and job.hostname == here]
        # Slurm reuses numbers: take the newest job.
        parts = parts or [job for job in jobs if job.slurm is not None and job.slurm.id == job_id][:1]
        parts = parts or _named([job for job in jobs if job.name == job_id and job.hostname == here])
        if not parts:
            raise
        return parts


def _named(jobs: list[Job]) -> list[Job]:
    """Return the one that runs, or else the newest, of the jobs with one name; they are sorted, newest first."""
    running = [job for job in jobs if job.active]
    if len(running) > 1:
        ids = ", ".join(job.id for job in running)
        raise UsageError(f"{len(running)} jobs are called {running[0].name!r}.", f"Name one of them by its id: {ids}.")
    return (running or jobs)[:1]


def processes(job_id: str) -> list[int]:
    """Return the PIDs of a job's processes, even of a job whose directory was deleted."""
    return [member.pid for member in job_processes.of_job(job_id)]


def _find(job_id: str) -> Job:
    directory = record.job_dir(job_id)
    known = _ended.get(directory)
    if known is not None:
        return known
    spec = checked.read_spec(directory)
    if directory.stat().st_uid != os.geteuid():
        raise checked.UnreadableJobError(directory, "it belongs to another user")
    job = from_records(directory, spec, checked.read_status(directory))
    if slurm.is_settled(job) and not job.survivors:
        _ended[directory] = job
    return job


def _with_left(jobs: list[Job]) -> list[Job]:
    """Add the processes that lost jobs left behind. They may occupy GPUs, and nothing supervises them."""
    here = socket.gethostname()
    lost = [
        job.id
        for job in jobs
        if job.state == "lost" and job.slurm is None and job.hostname == here and job.directory not in _deserted
    ]
    found = {job_id: members for job_id, members in job_processes.of_jobs(lost).items() if members} if lost else {}
    _deserted.update(job.directory for job in jobs if job.id in lost and job.id not in found)
    return [_left(job, tuple(member.pid for member in found[job.id])) if job.id in found else job for job in jobs]


def _left(job: Job, pids: tuple[int, ...]) -> Job:
    where = f" on {', '.join(job.device_uuids)}" if job.device_uuids else ""
    problem = f"its supervisor and its command are gone, but processes of it still run{where}: {', '.join(map(str, pids))}"
    return replace(job, left=pids, problem=problem)
