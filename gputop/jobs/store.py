"""Starts, lists and stops the jobs of this user. All state is on the disk, so that any later gputop finds it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gputop.errors import GputopError, UsageError
from gputop.jobs import checked, identity, kin, record, slurm
from gputop.jobs.job import ACTIVE, Job, from_records
from gputop.jobs.supervisor import DEFAULT_GRACE_S, KILL_PATIENCE_S, TERM_PATIENCE_S, sweep
from gputop.places import jobs_dir, make_private_dir
from gputop.recipes.catalogue import Launch

__all__ = [
    "ACTIVE",
    "Job",
    "Listing",
    "find",
    "launched",
    "list_jobs",
    "new_id",
    "processes",
    "read_jobs",
    "request_stop",
    "start",
    "stop",
    "stop_processes",
]

ANSWER_PATIENCE_S = 3.0
"""How long a supervisor may take to record a stop request. After that, its job is stopped from outside."""

_PACKAGE_PARENT = Path(__file__).resolve().parents[2]
_supervisors: list[subprocess.Popen[bytes]] = []
_ended: dict[Path, Job] = {}
_deserted: set[Path] = set()
"""Lost jobs without a process. They never get another one, so /proc is not searched for them again."""


@dataclass(frozen=True, slots=True)
class Listing:
    """The jobs of this user, the newest first, and one error for each damaged job."""

    jobs: tuple[Job, ...]
    problems: tuple[GputopError, ...]


def new_id() -> str:
    """Return an id that no other job has."""
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{os.urandom(2).hex()}"


def start(launch: Launch, after: Sequence[str] = (), *, job_id: str | None = None, launch_id: str | None = None) -> Job:
    """Start a job and return immediately; the job survives this process.

    It waits until all jobs in ``after`` (ids) have ended, whatever their exit. ``launch_id`` is the id of the launch over
    several hosts that the job belongs to, if any.

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
            "created_at": time.time(),
            "after": list(after),
        }
        record.write_json(directory / record.SPEC, spec)
        record.write_json(directory / record.SPAWNED, identity.describe(_spawn(directory)))
    except OSError as error:
        raise GputopError(f"The job cannot be started: {error}.", f"gputop keeps jobs in {jobs_dir()}.") from error
    return find(job_id)


def list_jobs() -> list[Job]:
    """Return all jobs of this user that can be read, the newest first."""
    return list(read_jobs().jobs)


def read_jobs() -> Listing:
    """Return all jobs of this user, and what cannot be read. Directories without a job are skipped."""
    _reap()
    try:
        names = sorted(os.listdir(jobs_dir()), reverse=True)
    except OSError:
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
    """Return the job with this id or Slurm number; or, for the id of a launch, its jobs on this machine.

    Raises:
        UsageError: there is none.
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
        if not parts:
            raise
        return parts


def processes(job_id: str) -> list[int]:
    """Return the PIDs of a job's processes, even of a job whose directory was deleted."""
    return [member.pid for member in kin.of_job(job_id)]


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


def request_stop(job_id: str, grace_s: float = DEFAULT_GRACE_S) -> None:
    """Request a stop and return immediately. The supervisor sends TERM, waits ``grace_s``, kills, and sweeps.

    Slurm does the same at its own pace; it is asked twice, and answers each time within ``slurm.ANSWER_S``.

    Raises:
        UsageError: there is no such job, or it has ended, or Slurm does not list it here.
        GputopError: Slurm does not accept the request, or does not answer.
    """
    job = find(job_id)
    if job.slurm is not None:
        _request_end(job, job.slurm.id)
        return
    if job.active and job.hostname != socket.gethostname():
        raise UsageError(f"Job {job_id} runs on {job.hostname}.", "Stop it there.")
    if not job.active and not processes(job_id):
        raise _has_ended(job)
    supervisor = checked.read_supervisor(job.directory, checked.read_status(job.directory))
    if not job.active or not supervisor or not identity.is_alive(supervisor):
        _spawn(job.directory, "--sweep")
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
    job = find(job_id)
    if job.slurm is not None:
        slurm.wait_for_end(job)
        return find(job_id)
    asked_at = time.monotonic()
    sweep_s = TERM_PATIENCE_S + KILL_PATIENCE_S
    deadline = asked_at + grace_s + 2 * sweep_s + 5.0
    swept_from_here = False
    while time.monotonic() < deadline:
        job = find(job_id)
        # A job without its supervisor is "lost" until the sweep has written "stopped".
        if not job.active and job.state != "lost" and not processes(job_id):
            return job
        patience_s = grace_s + sweep_s if job.stop_asked else ANSWER_PATIENCE_S
        if not swept_from_here and job.active and time.monotonic() - asked_at > patience_s:
            _spawn(job.directory, "--sweep")
            swept_from_here = True
        time.sleep(0.05)
    job = find(job_id)
    if job.survivors:
        raise _survived(job_id, job.survivors)
    left = ", ".join(map(str, processes(job_id))) or "none of its processes is left, but its end is not recorded"
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
    job = find(job.id)
    if not job.active and job.state != "lost":
        raise _has_ended(job)
    if not is_listed:
        raise UsageError(
            f"Slurm does not list job {number} here, or lists another job with that number.",
            "It has ended, or is another cluster's: stop it there.",
        )
    slurm.request_end(job)


def _has_ended(job: Job) -> UsageError:
    return UsageError(f"Job {job.id} has ended: {job.state}.", "There is nothing to stop.")


def _survived(job_id: str, pids: Sequence[int]) -> GputopError:
    return GputopError(
        f"Job {job_id} still runs after SIGKILL: {', '.join(map(str, pids))}.",
        "A process that waits in the kernel ends only when its driver lets it go.",
    )


def _spawn(directory: Path, *options: str) -> int:
    """Start a supervisor in its own session, with all signals blocked until it can handle them; return its PID."""
    environment = {name: value for name, value in os.environ.items() if name not in (identity.JOB_VARIABLE, "GPUTOP_RUN_ID")}
    log = record.open_log(directory / record.SUPERVISOR_LOG)
    # The supervisor inherits this thread's mask: a stop request before its first line is not lost.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        process = subprocess.Popen(
            [sys.executable, "-m", "gputop.jobs.supervisor", str(directory.absolute()), *options],
            cwd=_PACKAGE_PARENT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        os.close(log)
    _supervisors.append(process)
    return process.pid


def _reap() -> None:
    """Reap the supervisors that this process started, so that they do not become zombies."""
    _supervisors[:] = [process for process in _supervisors if process.poll() is None]


def _with_left(jobs: list[Job]) -> list[Job]:
    """Add the processes that lost jobs left behind. They may occupy GPUs, and nothing supervises them."""
    here = socket.gethostname()
    lost = [
        job.id
        for job in jobs
        if job.state == "lost" and job.slurm is None and job.hostname == here and job.directory not in _deserted
    ]
    found = {job_id: members for job_id, members in kin.of_jobs(lost).items() if members} if lost else {}
    _deserted.update(job.directory for job in jobs if job.id in lost and job.id not in found)
    return [_left(job, tuple(member.pid for member in found[job.id])) if job.id in found else job for job in jobs]


def _left(job: Job, pids: tuple[int, ...]) -> Job:
    where = f" on {', '.join(job.device_uuids)}" if job.device_uuids else ""
    problem = f"its supervisor and its command are gone, but processes of it still run{where}: {', '.join(map(str, pids))}"
    return replace(job, left=pids, problem=problem)
