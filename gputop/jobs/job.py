"""One launched job, as its records and its processes show it."""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from gputop.jobs import checked, identity, slurm_state
from gputop.jobs.slurm_state import SlurmJob
from gputop.snapshot import JOB_ACTIVE, JobState

ACTIVE = JOB_ACTIVE
SHOWN_FIRST: Sequence[JobState] = ("running", "starting", "waiting", "lost", "killed", "failed", "stopped", "finished")
"""Several jobs in one row show the first of these states that one of them has: active states, then the worst end."""


@dataclass(frozen=True, slots=True)
class Job:
    """A launched recipe or command, as described by its files.

    ``state``: waiting (for earlier jobs), starting, running, finished (exit code 0), failed (another exit code), stopped (on
    request), killed (by a signal that gputop did not send), lost (its supervisor is gone and wrote no last status: reboot,
    SIGKILL). Times are wall clock, seconds since the epoch. A launch over several hosts has a job on each host, all with the
    same ``launch_id``.
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
    """PIDs that survived SIGKILL because they are waiting in the kernel."""
    left: tuple[int, ...] = ()
    """PIDs of a lost job's processes that still run."""
    hostname: str | None = None
    launch_id: str | None = None
    nodes: int | None = None
    """How many hosts the launch is over."""
    problem: str | None = None
    slurm: SlurmJob | None = None
    """The job as Slurm knows it, if Slurm supervises it; ``state`` then dates from Slurm's last answer."""

    hosts: tuple[str, ...] = ()
    """The hosts that it runs on, as the user names them; empty for a job on this machine."""

    @property
    def run_id(self) -> str:
        """The id of the job's run: its own, or that of the launch over several hosts."""
        return self.launch_id or self.id

    @property
    def elsewhere(self) -> str:
        """Where it runs, or why it waits: "Slurm job 42 on n[1-2]", "on gpu1, gpu2"; "" for a job on this machine."""
        if self.hosts:
            return f"on {', '.join(self.hosts)}"
        return f"Slurm job {self.slurm.sentence}" if self.slurm is not None else ""

    @property
    def active(self) -> bool:
        """Whether the job has not ended."""
        return self.state in ACTIVE


def from_records(directory: Path, spec: Mapping[str, Any], status: Mapping[str, Any]) -> Job:
    """Return the job that checked records describe, with its state judged by its processes."""
    slurm = slurm_state.job_of(spec, status)
    if slurm is not None:
        return _slurm_job(directory, spec, status, slurm)
    state, status = _judged(directory, spec, status)
    supervisor = checked.read_supervisor(directory, status) or {}
    return Job(
        id=spec["id"],
        name=spec["name"].encode("utf-8", "replace").decode(),
        state=state,
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
        launch_id=spec.get("launch_id"),
        nodes=spec.get("nodes"),
        problem=status.get("problem"),
    )


def _slurm_job(directory: Path, spec: Mapping[str, Any], status: Mapping[str, Any], slurm: SlurmJob) -> Job:
    ended = checked.read_ended(directory)
    state, problem = slurm_state.state_of(status.get("slurm", {}), bool(status.get("asked")), ended)
    return Job(
        id=spec["id"],
        name=spec["name"].encode("utf-8", "replace").decode(),
        state=state,
        argv=tuple(spec["argv"]),
        directory=directory,
        recipe_id=spec.get("recipe_id"),
        values=spec.get("values", {}),
        started_at=status.get("began_at") or spec.get("created_at"),
        ended_at=ended.get("ended_at", status.get("ended_at")) if state not in ACTIVE else None,
        exit_code=ended.get("exit_code") if state not in ACTIVE else None,
        stop_asked=bool(status.get("asked")),
        hostname=spec.get("hostname"),
        problem=problem,
        slurm=slurm,
    )


def _judged(directory: Path, spec: Mapping[str, Any], status: Mapping[str, Any]) -> tuple[JobState, Mapping[str, Any]]:
    """Return a job's state, and the status that it was judged by: a newer one, if the job has changed since it was read."""
    if status.get("state") == "ended":
        return _end(status), status
    known: JobState = cast(JobState, str(status.get("state", "starting")))  # a newer supervisor may write another state
    if spec.get("hostname") != socket.gethostname():
        return known, status  # a shared home directory: only the other machine knows more
    # Without its supervisor the command may still run; only its exit code will stay unknown.
    if identity.is_alive(checked.read_supervisor(directory, status)) or identity.is_alive(status.get("child")):
        return known, status
    newest = checked.read_status(directory)
    if newest.get("state") == "ended" or newest.get("state", "starting") != known:
        return _judged(directory, spec, newest)
    just_made = abs(time.time() - spec.get("created_at", 0.0)) < 1.0 and checked.read_supervisor(directory, status) is None
    return "starting" if just_made else "lost", status


def _end(status: Mapping[str, Any]) -> JobState:
    if status.get("asked"):
        return "stopped"
    if status.get("signal") is not None:
        return "killed"
    if status.get("exit_code") is None:
        return "lost"
    return "finished" if status["exit_code"] == 0 else "failed"
