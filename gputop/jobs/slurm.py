"""Jobs that Slurm supervises: what it is asked about them, what is kept of its answers, and how they are ended.

Slurm is asked by ``squeue`` alone, as many clusters keep no accounts: it forgets a job some minutes after its end
(``MinJobAge``). Nothing that it prints is trusted.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gputop.errors import GputopError
from gputop.jobs import checked, record
from gputop.jobs.job import ACTIVE, SHOWN_FIRST, Job
from gputop.jobs.slurm_state import state_of_word
from gputop.programs.asked import printed
from gputop.snapshot import JobState
from gputop.terminal_text import printable

COMMANDS = "Slurm's commands"
ANSWER_S = 15.0
"""How long a command may take: one waits about 10 s for a controller that is down."""
FORGOTTEN_S = 2 * 86_400.0
"""How long Slurm is asked again about a job that it did not list: another of its machines may know it."""
ENDS_S = 120.0
"""How long a canceled job may take to end: by default, processes get 30 s (``KillWait``), and epilogs take time, too."""
_AGAIN_S = 1.0
_SKEW_S = 300.0
"""A job that was submitted so long before this one is another of the same number."""
_TEXT_MOST = 300
_FIELDS = ("%F", "%T", "%r", "%N", "%S", "%e", "%V")


@dataclass(frozen=True, slots=True)
class Row:
    """A line of ``squeue``. Times are seconds since the epoch."""

    job: str
    word: str
    """Slurm's own word for the state, such as PENDING."""
    reason: str | None
    nodes: str | None
    started_at: float | None
    ended_at: float | None
    submitted_at: float | None

    @property
    def state(self) -> JobState:
        """The state as that of a job; a word of a later Slurm is judged by whether the job has nodes."""
        return state_of_word(self.word, self.nodes)


def refresh(jobs: Iterable[Job]) -> list[GputopError]:
    """Ask Slurm about those of the jobs that it supervises and that have not ended, and record what it answers.

    Reads nothing and asks nobody if there are none. Returns what kept Slurm from answering.
    """
    asked: dict[str | None, list[Job]] = {}
    for job in jobs:
        if job.slurm is None:
            continue
        forgotten = job.state == "lost" and time.time() - (job.slurm.forgotten_at or 0.0) < FORGOTTEN_S
        if job.active or forgotten:
            asked.setdefault(job.slurm.cluster, []).append(job)
    problems = []
    for cluster, members in asked.items():
        try:
            rows = queue(cluster)
        except GputopError as error:
            problems.append(error)
            continue
        for job in members:
            _note(job, [row for row in rows if job.slurm is not None and row.job == job.slurm.id])
    return problems


def queue(cluster: str | None = None) -> list[Row]:
    """Return this user's jobs, also those that ended some minutes ago.

    Raises:
        GputopError: there is no Slurm here, or it does not answer.
    """
    # Defaults of the user's own listings, such as SQUEUE_PARTITION, would hide jobs.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SQUEUE_")}
    environment["SLURM_TIME_FORMAT"] = "standard"
    words = ["squeue", "--noheader", "--states=all", f"--user={os.getuid()}", f"--format={'|'.join(_FIELDS)}"]
    rows = map(_row, printed([*words, *_clusters(cluster)], COMMANDS, ANSWER_S, environment=environment))
    return [row for row in rows if row is not None]


def request_end(job: Job) -> None:
    """Ask Slurm to end a job, and return once it has taken the request.

    Raises:
        GputopError: it does not take it, or does not answer.
    """
    assert job.slurm is not None
    printed(["scancel", *_clusters(job.slurm.cluster), job.slurm.id], COMMANDS, ANSWER_S)
    status = checked.read_status(job.directory)
    asked = {"signal": "scancel", "at": time.time(), "pid": os.getpid(), "uid": os.getuid()}
    _write(job, status | {"asked": [*status.get("asked", ()), asked]})


def has_ended(job: Job) -> bool:
    """Return whether Slurm has ended a job, as its newest answer says.

    Raises:
        GputopError: Slurm does not answer.
    """
    for problem in refresh([job]):
        raise problem
    found = checked.read_status(job.directory).get("slurm", {})
    return "forgotten_at" in found or state_of_word(found.get("word"), found.get("nodes")) not in ACTIVE


def wait_for_end(job: Job) -> None:
    """Wait until Slurm has ended a job, with all its processes.

    Raises:
        GputopError: it has not within ``ENDS_S``, or does not answer.
    """
    assert job.slurm is not None
    deadline = time.monotonic() + ENDS_S
    while not has_ended(job):
        if time.monotonic() > deadline:
            word = checked.read_status(job.directory).get("slurm", {}).get("word")
            raise GputopError(f"Slurm job {job.slurm.id} has not ended yet: {word}.", f"Look: squeue -j {job.slurm.id}")
        time.sleep(_AGAIN_S)


def _clusters(cluster: str | None) -> list[str]:
    return [f"--clusters={cluster}"] if cluster else []


def _row(line: str) -> Row | None:
    """Return what a line says; None for the heading of a cluster, and for what is no line of ours."""
    parts = [printable(part).strip()[:_TEXT_MOST] for part in line.split("|")]
    if len(parts) != len(_FIELDS) or not parts[0].isdigit():
        return None
    job, word, reason, nodes, *times = parts
    began, end, submitted = map(_time, times)
    return Row(job, word.upper(), None if reason in ("", "None") else reason, nodes or None, began, end, submitted)


def _time(text: str) -> float | None:
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):  # "N/A"
        return None


def _note(job: Job, rows: Sequence[Row]) -> None:
    """Record what Slurm says of a job; several rows are the tasks of an array."""
    made_at = checked.read_spec(job.directory).get("created_at", 0.0)
    rows = [row for row in rows if row.submitted_at is None or row.submitted_at > made_at - _SKEW_S]
    status = checked.read_status(job.directory)
    if not rows:
        _write(job, status | {"slurm": {"forgotten_at": time.time(), **status.get("slurm", {})}})
        return
    first = min(rows, key=lambda row: SHOWN_FIRST.index(row.state))
    is_over = first.state not in ACTIVE
    nodes = ",".join(dict.fromkeys(row.nodes for row in rows if row.nodes))
    begun = [row.started_at for row in rows if row.started_at is not None and row.state not in ("waiting", "starting")]
    over = [row.ended_at for row in rows if row.ended_at is not None]
    found = {
        "state": "ended" if is_over else first.state,
        "began_at": min(begun, default=None),
        "ended_at": max(over, default=None) if is_over else None,
        "slurm": {"word": first.word, "reason": first.reason, "nodes": nodes or None},
    }
    _write(job, status | found)


def _write(job: Job, status: Mapping[str, Any]) -> None:
    with contextlib.suppress(OSError):  # on a full disk the last answer stays
        if checked.read_status(job.directory) != status:
            record.write_json(job.directory / record.STATUS, dict(status))
