"""The state of a Slurm job, by its records: Slurm's last answer, and the end that its script wrote. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gputop.snapshot import FAILED_STATES, JobState

_STATES: Mapping[str, JobState] = {
    **dict.fromkeys(("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "RESV_DEL_HOLD", "SPECIAL_EXIT"), "waiting"),
    **dict.fromkeys(("CONFIGURING", "POWER_UP_NODE"), "starting"),
    **dict.fromkeys(("RUNNING", "COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT", "STOPPED", "SUSPENDED"), "running"),
    **dict.fromkeys(("FAILED", "BOOT_FAIL", "LAUNCH_FAILED", "OUT_OF_MEMORY", "RECONFIG_FAIL"), "failed"),
    **dict.fromkeys(("DEADLINE", "NODE_FAIL", "PREEMPTED", "TIMEOUT"), "killed"),
    **dict.fromkeys(("CANCELLED", "REVOKED"), "stopped"),
    "COMPLETED": "finished",
}
"""Slurm's state (squeue(1), JOB STATE CODES) -> state of a job."""
_ID = re.compile(r"\d{1,12}")
_CLUSTER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """A job as Slurm knows it."""

    id: str
    cluster: str | None = None
    """The cluster, unless it is the one that Slurm's commands ask by default."""
    output: str | None = None
    """The file that Slurm writes its output to, as the nodes name it."""
    word: str | None = None
    """Slurm's own word for its state when it last answered, such as PENDING."""
    reason: str | None = None
    """Why it waits, in Slurm's words."""
    nodes: str | None = None
    """The nodes as Slurm writes them: "n[1-2]"."""
    forgotten_at: float | None = None
    """When Slurm stopped listing it, seconds since the epoch."""

    @property
    def sentence(self) -> str:
        """Its number, and where it runs or why it waits: "42 on n[1-2]"."""
        if self.nodes:
            return f"{self.id} on {self.nodes}"
        waits = self.word is None or state_of_word(self.word, None) == "waiting"
        return f"{self.id} waits: {self.reason}" if waits and self.reason else self.id


def job_of(spec: Mapping[str, Any], status: Mapping[str, Any]) -> SlurmJob | None:
    """Return what checked records say about a Slurm job; None if it is not one."""
    kept, said = spec.get("slurm"), status.get("slurm") or {}
    if not kept or not is_id(str(kept.get("id"))):
        return None
    cluster = str(kept.get("cluster") or "")
    return SlurmJob(
        id=str(kept["id"]),
        cluster=cluster if is_cluster(cluster) else None,
        output=_text(kept.get("output")),
        word=_text(said.get("word")),
        reason=_text(said.get("reason")),
        nodes=_text(said.get("nodes")),
        forgotten_at=_time(said.get("forgotten_at")),
    )


def is_id(text: str) -> bool:
    """Return whether this is the number of a Slurm job, which becomes part of a command."""
    return _ID.fullmatch(text) is not None


def is_cluster(text: str) -> bool:
    """Return whether this may be the name of a cluster."""
    return _CLUSTER.fullmatch(text) is not None


def state_of_word(word: str | None, nodes: str | None) -> JobState:
    """Return Slurm's state as a ``JobState``; for a word of a later Slurm, it depends on whether the job has nodes."""
    return _STATES.get(word or "", "running" if nodes else "waiting")


def state_of(slurm: Mapping[str, Any], asked: bool, ended: Mapping[str, Any]) -> tuple[JobState, str | None]:
    """Return a job's state and the reason for it, by Slurm's last answer and by what the script wrote when it ended."""
    word = _text(slurm.get("word"))
    state = state_of_word(word, _text(slurm.get("nodes")))
    if state in FAILED_STATES:
        return state, f"Slurm ended it: {word}" if word != "FAILED" else None
    if state in ("stopped", "finished"):
        return state, None
    is_forgotten = _time(slurm.get("forgotten_at")) is not None
    # A job that waits or starts after its script has ended is one that Slurm has requeued.
    if ended and (is_forgotten or word is None or state == "running"):
        if asked:
            return "stopped", None
        return ("finished" if ended.get("exit_code") == 0 else "failed"), None
    if is_forgotten:
        return ("stopped", None) if asked else ("lost", "Slurm no longer lists it here, and it has written no exit code")
    return state, None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _time(value: object) -> float | None:
    return value if isinstance(value, float) else None
