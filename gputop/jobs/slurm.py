"""Jobs that Slurm supervises: asks Slurm about them, records its answers, and ends them.

Asks with ``squeue`` only, because many clusters keep no accounting: Slurm forgets a job some minutes after its end
(``MinJobAge``). Nothing that it prints is trusted.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gputop.errors import GputopError
from gputop.jobs import checked, record
from gputop.jobs.job import ACTIVE, SHOWN_FIRST, Job
from gputop.jobs.slurm_state import SlurmJob, state_of_word
from gputop.snapshot import JobState
from gputop.terminal_text import printable

COMMANDS = "Slurm's commands"
ANSWER_S = 15.0
"""How long a command may take. It waits about 10 s for a controller that is down."""
FORGOTTEN_S = 2 * 86_400.0
"""How long to keep asking about a job that Slurm did not list: another of its machines may know it."""
REQUEUED_S = 86_400.0
"""How long to keep asking about an ended job that Slurm still lists: it may start again (``scontrol requeue``)."""
ENDS_S = 120.0
"""How long a canceled job may take to end: by default, processes get 30 s (``KillWait``), and epilogs take time too."""
_AGAIN_S = 1.0
"""How often to ask whether a canceled job has ended."""
_SKEW_S = 300.0
"""How far the controller's clock may be from ours. A job that was submitted earlier is another job with the same number."""
_TEXT_MOST = 300
"""A longer text is cut."""
_PLACE_MOST = 5000
"""A folder has up to 4,095 bytes (PATH_MAX)."""
_FIELDS = ("%F", "%T", "%r", "%N", "%S", "%e", "%V", "%Z|%j")


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
    """It changes when the job is requeued."""
    place: str
    """The job's folder and name, "FOLDER|NAME". They are not separated, because either may contain the bar."""

    @property
    def state(self) -> JobState:
        """The state as a ``JobState``; for a word of a later Slurm, it depends on whether the job has nodes."""
        return state_of_word(self.word, self.nodes)


def refresh(jobs: Iterable[Job]) -> list[GputopError]:
    """Ask Slurm about the jobs that it supervises and that have not ended, and record its answers.

    Reads and asks nothing if there are none. Returns what kept Slurm from answering.
    """
    asked: dict[str | None, list[Job]] = {}
    for job in jobs:
        if job.slurm is None:
            continue
        if job.active or _may_return(job, job.slurm):
            asked.setdefault(job.slurm.cluster, []).append(job)
    problems = []
    for cluster, members in asked.items():
        try:
            rows = queue(cluster)
        except GputopError as error:
            if any(job.active or job.state == "lost" for job in members):
                problems.append(error)
            continue
        for job in members:
            with contextlib.suppress(checked.UnreadableJobError):  # the list of jobs names it
                _note(job, rows)
    return problems


def is_settled(job: Job) -> bool:
    """Return whether a job's end is final: Slurm cannot start it again, or does not supervise it."""
    return not job.active and job.state != "lost" and (job.slurm is None or not _may_return(job, job.slurm))


def _may_return(job: Job, slurm: SlurmJob) -> bool:
    """Return whether Slurm may list a lost job again, or restart one that has ended."""
    if slurm.forgotten_at is not None:
        return job.state == "lost" and time.time() - slurm.forgotten_at < FORGOTTEN_S
    return job.ended_at is None or time.time() - job.ended_at < REQUEUED_S


def queue(cluster: str | None = None) -> list[Row]:
    """Return this user's jobs, also those that ended some minutes ago.

    Raises:
        GputopError: there is no Slurm here, or it does not answer.
    """
    # The user's defaults for listings, such as SQUEUE_PARTITION, would hide jobs.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SQUEUE_")}
    environment["SLURM_TIME_FORMAT"] = "standard"
    # Without --all, jobs in hidden partitions are not listed.
    words = ["squeue", "--noheader", "--all", "--states=all", f"--user={os.getuid()}", f"--format={'|'.join(_FIELDS)}"]
    from gputop.programs.asked import printed  # the sampler asks nobody

    rows = map(_row, printed([*words, *_clusters(cluster)], COMMANDS, ANSWER_S, environment=environment))
    return [row for row in rows if row is not None]


def request_end(job: Job) -> None:
    """Ask Slurm to end a job, and return once it has accepted the request.

    Only for a job that ``ask`` has just found listed: Slurm reuses numbers, and another cluster may have a job with the same
    number.

    Raises:
        GputopError: it does not accept the request, or does not answer.
    """
    assert job.slurm is not None
    from gputop.programs.asked import printed

    printed(["scancel", *_clusters(job.slurm.cluster), job.slurm.id], COMMANDS, ANSWER_S)
    status = checked.read_status(job.directory)
    asked = {"signal": "scancel", "at": time.time(), "pid": os.getpid(), "uid": os.getuid()}
    _write(job, status | {"asked": [*status.get("asked", ()), asked]})


def has_ended(job: Job) -> bool:
    """Return whether Slurm has ended a job, according to its newest answer.

    Raises:
        GputopError: Slurm does not answer.
    """
    is_listed = ask(job)
    found = checked.read_status(job.directory).get("slurm", {})
    if not is_listed:
        return "word" in found  # one that was never listed has not ended
    return state_of_word(found.get("word"), found.get("nodes")) not in ACTIVE


def ask(job: Job) -> bool:
    """Ask Slurm about a job, whatever its last known state, and record the answer; return whether Slurm lists it.

    Raises:
        GputopError: Slurm does not answer.
    """
    assert job.slurm is not None
    return _note(job, queue(job.slurm.cluster))


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
            raise GputopError(f"Slurm job {job.slurm.id} has not ended yet: {word}.", f"See squeue -j {job.slurm.id}.")
        time.sleep(_AGAIN_S)


def _clusters(cluster: str | None) -> list[str]:
    return [f"--clusters={cluster}"] if cluster else []


def _row(line: str) -> Row | None:
    """Parse a line; return None for the heading of a cluster, and for a line that is not in our format."""
    *parts, place = line.split("|", len(_FIELDS) - 1)
    parts = [printable(part).strip()[:_TEXT_MOST] for part in parts]
    if len(parts) != len(_FIELDS) - 1 or not parts[0].isdigit():
        return None
    job, word, reason, nodes, *times = parts
    began, end, submitted = map(_time, times)
    reason_said = None if reason in ("", "None") else reason
    return Row(job, word.upper(), reason_said, nodes or None, began, end, submitted, _place(place))


def _place(text: str) -> str:
    return printable(text).strip()[:_PLACE_MOST]


def _time(text: str) -> float | None:
    try:
        return time.mktime(time.strptime(text, "%Y-%m-%dT%H:%M:%S"))
    except (ValueError, OverflowError):  # "N/A"
        return None


def _own_rows(job: Job, rows: Iterable[Row], spec: Mapping[str, Any], known: Mapping[str, Any]) -> list[Row]:
    """Return those of ``rows`` that are this job, not another with its number; ``known`` is what an earlier answer recorded.

    The time of submission must be the one first seen, or about when gputop made the job. Requeueing changes it: then the
    folder and the name decide.
    """
    assert job.slurm is not None
    made_at = spec.get("created_at", 0.0)
    place = known.get("place") or _place(f"{spec.get('cwd')}|{spec['name']}")
    first_at = known.get("submitted_at")

    def is_own(row: Row) -> bool:
        at = row.submitted_at
        if at is not None and at <= made_at - _SKEW_S:
            return False
        is_same_time = at is not None and (at == first_at if first_at is not None else at < made_at + _SKEW_S)
        return is_same_time or row.place == place

    return [row for row in rows if row.job == job.slurm.id and is_own(row)]


def _note(job: Job, listed: Iterable[Row]) -> bool:
    """Record what Slurm says about a job, and return whether it lists it; several rows are the tasks of an array."""
    status = checked.read_status(job.directory)
    known = status.get("slurm", {})
    rows = _own_rows(job, listed, checked.read_spec(job.directory), known)
    if not rows:
        _write(job, status | {"slurm": {"forgotten_at": time.time(), **known}})
        return False
    first = min(rows, key=lambda row: SHOWN_FIRST.index(row.state))
    is_over = first.state not in ACTIVE
    nodes = ",".join(dict.fromkeys(row.nodes for row in rows if row.nodes))
    begun = [row.started_at for row in rows if row.started_at is not None and row.state not in ("waiting", "starting")]
    over = [row.ended_at for row in rows if row.ended_at is not None]
    found = {
        "state": "ended" if is_over else first.state,
        "began_at": min(begun, default=None),
        "ended_at": max(over, default=None) if is_over else None,
        "slurm": {
            "word": first.word,
            "reason": first.reason,
            "nodes": nodes or None,
            "submitted_at": known.get("submitted_at") or first.submitted_at,
            "place": known.get("place") or first.place,
        },
    }
    _write(job, status | found)
    return True


def _write(job: Job, status: Mapping[str, Any]) -> None:
    with contextlib.suppress(OSError):  # on a full disk the last answer stays
        if checked.read_status(job.directory) != status:
            record.write_json(job.directory / record.STATUS, dict(status))
