"""Finds all processes of a job, also those that cleared their environment or left their session. Reads /proc.

A process belongs to a job if it carries the job's mark in its environment, if its standard output or error is the job's, if it
is in the session of the job's command, or if one of its ancestors belongs to the job. A job that was started from within
another is separate from it, and so are supervisors. A process is not found only if it has cleared its environment, redirected
its output, left the session, and outlived its parent.

Imports the standard library only.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from gputop.jobs import identity

_MARK = f"{identity.JOB_VARIABLE}=".encode()
_SUPERVISOR = b"gputop.jobs.supervisor"


@dataclass(frozen=True, slots=True)
class Member:
    """One process of a job, identified beyond its PID."""

    pid: int
    start_ticks: int


def output_name(job_id: str) -> str:
    """Return the name of the file in memory that a job writes to."""
    return f"gputop-{job_id}"


def of_job(job_id: str, session: int | None = None) -> list[Member]:
    """Return the processes of one job. ``session`` is the PID of its command, unless another process may have it by now."""
    return of_jobs((job_id,), {} if session is None else {session: job_id})[job_id]


def of_jobs(job_ids: Collection[str], sessions: Mapping[int, str] | None = None) -> dict[str, list[Member]]:
    """Return the processes of each job, except zombies and this process, in one pass over /proc."""
    outputs = {f"/memfd:{output_name(job_id)} (deleted)": job_id for job_id in job_ids}
    parents: dict[int, int] = {}
    members: dict[int, Member] = {}
    owners: dict[int, str] = {}  # "" for those that belong to no job, and all that they started
    for pid in identity.pids():
        found = identity.stat_fields(pid)
        if found is None:
            continue
        members[pid], parents[pid] = Member(pid, found.start_ticks), found.parent
        mark = _mark_of(pid)
        owner = mark if mark is not None else _output_of(pid, outputs) or (sessions or {}).get(found.session)
        if mark is None and _is_supervisor(pid):
            owner = ""
        if owner is not None:
            owners[pid] = owner
    result: dict[str, list[Member]] = {job_id: [] for job_id in job_ids}
    for pid, member in members.items():
        owner = _inherited(pid, owners, parents)
        if owner and owner in result and pid != os.getpid():  # no job has the empty id, which stands for all other processes
            result[owner].append(member)
    return result


def alive(members: Collection[Member]) -> list[Member]:
    """Return those that still run."""
    return [member for member in members if identity.start_ticks(member.pid) == member.start_ticks]


def send(members: Collection[Member], number: signal.Signals) -> None:
    """Signal each process, unless it has ended and another process has its PID."""
    for member in members:
        with contextlib.suppress(OSError):
            handle = _open(member.pid)
            try:
                if identity.start_ticks(member.pid) != member.start_ticks:
                    continue
                if handle is None:
                    os.kill(member.pid, number)
                else:
                    signal.pidfd_send_signal(handle, number)
            finally:
                if handle is not None:
                    os.close(handle)


def open_files(pid: int) -> Iterator[tuple[int, str]]:
    """Yield the number and target of each file that a process has open; nothing for another user's process."""
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        with contextlib.suppress(OSError):
            yield int(name), os.readlink(f"{folder}/{name}")


def _open(pid: int) -> int | None:
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        raise
    except OSError:  # Linux before 5.3 has no pidfd; a race of microseconds remains
        return None


def _inherited(pid: int, owners: Mapping[int, str], parents: Mapping[int, int]) -> str:
    seen: set[int] = set()
    while pid in parents and pid not in seen:
        if pid in owners:
            return owners[pid]
        seen.add(pid)
        pid = parents[pid]
    return ""


def _mark_of(pid: int) -> str | None:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:  # gone, or another user's
        return None
    return next((entry[len(_MARK) :].decode(errors="replace") for entry in entries if entry.startswith(_MARK)), None)


def _output_of(pid: int, outputs: Mapping[str, str]) -> str | None:
    for number in (1, 2):
        with contextlib.suppress(OSError):
            job_id = outputs.get(os.readlink(f"/proc/{pid}/fd/{number}"))
            if job_id is not None:
                return job_id
    return None


def _is_supervisor(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return _SUPERVISOR in file.read(4096).split(b"\0")
    except OSError:
        return False
