"""The jobs of this user: start, list, stop. All state is on disk, so that any later gputop finds it."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from gputop.errors import GputopError, UsageError
from gputop.jobs import checked, identity, record
from gputop.jobs.supervisor import DEFAULT_GRACE_S, KILL_PATIENCE_S, TERM_PATIENCE_S
from gputop.places import jobs_dir, make_private_dir
from gputop.recipes.catalogue import Launch
from gputop.snapshot import JobState

__all__ = ["ACTIVE", "Job", "Listing", "find", "list_jobs", "read_jobs", "request_stop", "start", "stop"]

ACTIVE: frozenset[JobState] = frozenset({"waiting", "starting", "running"})
"""The states of a job that has not ended."""

ANSWER_PATIENCE_S = 3.0
"""How long a supervisor may take to record a request to stop. After that its job is stopped from outside."""

_PACKAGE_PARENT = Path(__file__).resolve().parents[2]
_supervisors: list[subprocess.Popen[bytes]] = []
_ended: dict[Path, Job] = {}


@dataclass(frozen=True, slots=True)
class Job:
    """A launched recipe or command, as described by its files.

    ``state``: waiting (for earlier jobs), starting, running, finished (exit code 0), failed (another exit code), stopped (on
    request), killed (by a signal that gputop did not send), lost (its supervisor is gone without a last status: reboot,
    SIGKILL). Times are wall clock, seconds since the epoch. The job's run has the job's id as its run id.
    """

    id: str
    name: str
    state: JobState
    argv: tuple[str, ...]
    directory: Path
    recipe_id: str | None = None
    device_uuids: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    started_at: float | None = None
    ended_at: float | None = None
    exit_code: int | None = None
    signal: str | None = None
    supervisor_pid: int | None = None
    command_pid: int | None = None
    stop_asked: bool = False
    """Whether a stop was requested; while the state is still "running", the job is stopping."""
    swept: tuple[int, ...] = ()
    """PIDs that the launcher left behind and the supervisor ended."""
    survivors: tuple[int, ...] = ()
    """PIDs that survived SIGKILL because they wait in the kernel."""
    hostname: str | None = None
    problem: str | None = None

    @property
    def active(self) -> bool:
        """Whether the job has not ended."""
        return self.state in ACTIVE


@dataclass(frozen=True, slots=True)
class Listing:
    """The jobs of this user, the newest first, and one error for each directory that holds a damaged job."""

    jobs: tuple[Job, ...]
    problems: tuple[checked.UnreadableJobError, ...]


def start(launch: Launch, after: Sequence[str] = ()) -> Job:
    """Start a job and return immediately; the job survives this process.

    It waits until all jobs in ``after`` (ids) have ended, whatever their exit.

    Raises:
        GputopError: the directory cannot be created, or no process can be started.
    """
    job_id = f"{time.strftime('%Y%m%d-%H%M%S')}-{secrets.token_hex(2)}"
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
    """Return all jobs of this user, and what cannot be read. Directories without a job are passed over."""
    _reap()
    try:
        names = sorted(os.listdir(jobs_dir()), reverse=True)
    except OSError:
        return Listing((), ())
    found, problems = [], []
    for name in names:
        try:
            found.append(find(name))
        except checked.UnreadableJobError as error:
            problems.append(error)
        except UsageError:
            continue
    return Listing(tuple(sorted(found, key=lambda job: job.started_at or 0.0, reverse=True)), tuple(problems))


def find(job_id: str) -> Job:
    """Return one job.

    Raises:
        UsageError: there is none with this id.
        UnreadableJobError: its records are damaged, or belong to another user.
    """
    directory = record.job_dir(job_id)
    known = _ended.get(directory)
    if known is not None:
        return known
    spec = checked.read_spec(directory)
    if directory.stat().st_uid != os.geteuid():
        raise checked.UnreadableJobError(directory, "it belongs to another user")
    job = _job_from_files(directory, spec, checked.read_status(directory))
    if not job.active and job.state != "lost" and not job.survivors:
        _ended[directory] = job
    return job


def request_stop(job_id: str, grace_s: float = DEFAULT_GRACE_S) -> None:
    """Request a stop and return immediately. The supervisor sends TERM, waits ``grace_s``, kills, and sweeps.

    Raises:
        UsageError: there is no such job, or it has ended.
    """
    job = find(job_id)
    if job.active and job.hostname != socket.gethostname():
        raise UsageError(f"Job {job_id} runs on {job.hostname}.", "Stop it there.")
    if not job.active and not identity.marked(job_id):
        raise UsageError(f"Job {job_id} has ended: {job.state}.", "There is nothing to stop.")
    supervisor = checked.read_supervisor(job.directory, checked.read_status(job.directory))
    if not job.active or not supervisor or not identity.is_alive(supervisor):
        _spawn(job.directory, "--sweep")
        return
    with contextlib.suppress(OSError):  # on a full disk the supervisor uses its default grace
        record.write_json(job.directory / record.STOP, {"grace_s": grace_s, "pid": os.getpid(), "at": time.time()})
    with contextlib.suppress(ProcessLookupError):
        os.kill(supervisor["pid"], signal.SIGTERM)
        os.kill(supervisor["pid"], signal.SIGCONT)  # if it is suspended, it goes on to serve the request


def stop(job_id: str, grace_s: float = DEFAULT_GRACE_S) -> Job:
    """Stop a job and wait until all of its processes have ended.

    Raises:
        UsageError: there is no such job, or it has ended.
        GputopError: some processes cannot be killed.
    """
    request_stop(job_id, grace_s)
    asked_at = time.monotonic()
    sweep_s = TERM_PATIENCE_S + KILL_PATIENCE_S
    deadline = asked_at + grace_s + 2 * sweep_s + 5.0
    swept_from_here = False
    while time.monotonic() < deadline:
        job = find(job_id)
        # A job without its supervisor is "lost" until the sweep has written "stopped".
        if not job.active and job.state != "lost" and not identity.marked(job_id):
            return job
        patience_s = grace_s + sweep_s if job.stop_asked else ANSWER_PATIENCE_S
        if not swept_from_here and job.active and time.monotonic() - asked_at > patience_s:
            _spawn(job.directory, "--sweep")
            swept_from_here = True
        time.sleep(0.05)
    job = find(job_id)
    if job.survivors:
        pids = ", ".join(map(str, job.survivors))
        raise GputopError(
            f"Job {job_id} still runs after SIGKILL: {pids}.", "A process that waits in the kernel ends only with its driver."
        )
    left = ", ".join(map(str, identity.marked(job_id))) or "none of its processes is left, but its end is not recorded"
    raise GputopError(
        f"Job {job_id} has not ended yet: {left}.", f"Run gputop stop {job_id} again, or end these processes with kill."
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
    """Reap the supervisors that this process started, so that they do not remain as zombies."""
    _supervisors[:] = [process for process in _supervisors if process.poll() is None]


def _job_from_files(directory: Path, spec: Mapping[str, Any], status: Mapping[str, Any]) -> Job:
    supervisor = checked.read_supervisor(directory, status) or {}
    return Job(
        id=spec["id"],
        name=spec["name"].encode("utf-8", "replace").decode(),
        state=_state(directory, spec, status),
        argv=tuple(spec["argv"]),
        directory=directory,
        recipe_id=spec.get("recipe_id"),
        device_uuids=tuple(spec.get("device_uuids", ())),
        values=spec.get("values", {}),
        started_at=status.get("began_at") or spec.get("created_at"),
        ended_at=status.get("ended_at"),
        exit_code=status.get("exit_code"),
        signal=status.get("signal"),
        supervisor_pid=supervisor.get("pid"),
        command_pid=status.get("child", {}).get("pid"),
        stop_asked=bool(status.get("asked")),
        swept=tuple(status.get("swept", ())),
        survivors=tuple(status.get("survivors", ())),
        hostname=spec.get("hostname"),
        problem=status.get("problem"),
    )


def _state(directory: Path, spec: Mapping[str, Any], status: Mapping[str, Any]) -> JobState:
    if status.get("state") == "ended":
        if status.get("asked"):
            return "stopped"
        if status.get("signal") is not None:
            return "killed"
        if status.get("exit_code") is None:
            return "lost"
        return "finished" if status["exit_code"] == 0 else "failed"
    known: JobState = cast(JobState, str(status.get("state", "starting")))  # a newer supervisor may write another
    if spec.get("hostname") != socket.gethostname():
        return known  # the home directory is shared, and only the other machine knows more
    # Without its supervisor the command may still run; only its exit code will stay unknown.
    if identity.is_alive(checked.read_supervisor(directory, status)) or identity.is_alive(status.get("child")):
        return known
    # It may have ended since the status was read.
    newest = checked.read_status(directory)
    if newest.get("state") == "ended" or newest.get("state", "starting") != known:
        return _state(directory, spec, newest)
    just_made = abs(time.time() - spec.get("created_at", 0.0)) < 1.0 and checked.read_supervisor(directory, status) is None
    return "starting" if just_made else "lost"
