"""What runs said when they failed: known error texts in their output, and the exception in the journal, by run.

For rules that judge a text: most such runs have ended, so that no job of theirs is left. Not a rule itself.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass

from gputop.doctor import fixes, stated_model
from gputop.doctor.evidence import Evidence
from gputop.doctor.finding import Fact
from gputop.doctor.jobs import Job
from gputop.snapshot import LogMatch, Rank, Run, Snapshot

_TEXT_MAX = 160
_EXCEPTIONS = {
    "invalid device ordinal": "invalid_ordinal",
    "Expected all tensors to be on the same device": "two_devices",
    "CUDA out of memory": "oom",
    "busy or unavailable": "devices_busy",
    "unrecognized arguments: --local-rank": "local_rank_dash",
    "changing env variable CUDA_VISIBLE_DEVICES after program start": "cuda_unknown_env",
    "(device_ids[0]) but found one of them on device": "dp_not_on_dev0",
    "in replica ": "dp_replica_error",
    "Expected to have finished reduction in the prior iteration": "unused_params",
    "mark a variable ready only once": "ready_twice",
    "DistributedDataParallel device_ids and output_device arguments only work": "ddp_devids_cpu",
    "DistributedDataParallel is not needed when a module": "ddp_not_needed",
    'key(s) in state_dict: "module.': "module_prefix",
}
"""In the exception that the tracking caught, where nobody captured the output: a text, and its pattern's name."""


@dataclass(frozen=True, slots=True)
class Told:
    """One run (or a launch without a journal) and what it said. ``job`` is None once it has ended on this machine."""

    subject: str
    run: Run | None
    job: Job | None
    matches: tuple[LogMatch, ...]

    @property
    def run_id(self) -> str | None:
        """The run's id, None for a launch without a journal."""
        return self.run.run_id if self.run is not None else None

    @property
    def devices(self) -> tuple[str, ...]:
        """UUIDs of the devices that the run is seen on."""
        return tuple(sorted(self.job.used)) if self.job is not None else ()

    @property
    def pids(self) -> tuple[int, ...]:
        """PIDs of the ranks that are still there."""
        return self.job.pids if self.job is not None else ()

    def first(self, *patterns: str) -> LogMatch | None:
        """Return the first text of one of the patterns."""
        return next((match for match in self.matches if match.pattern in patterns), None)

    def rank(self, number: int | None) -> Rank | None:
        """Return a rank's record; the first one for None."""
        ranks = self.run.ranks if self.run is not None else ()
        return next((rank for rank in ranks if number is None or rank.rank == number), None)

    @property
    def goes_on(self) -> bool:
        """The run did not end of what it said."""
        return self.run is not None and self.run.state in ("running", "finished")


def told(evidence: Evidence) -> tuple[Told, ...]:
    """Return every run and launch on this machine that said something known, in the order of the snapshot."""
    found: tuple[Told, ...] | None = evidence.memo.get("told")
    if found is None and evidence.snapshot is not None:
        found = evidence.memo["told"] = _told(evidence, evidence.snapshot)
    return found or ()


def _told(evidence: Evidence, snapshot: Snapshot) -> tuple[Told, ...]:
    jobs = {job.run_id: job for job in evidence.jobs if job.run_id is not None}
    found = []
    for run in snapshot.runs:
        matches = [
            m for m in snapshot.logs if m.run_id == run.run_id or (m.run_id is None and m.job_id and m.job_id == run.job_id)
        ]
        matches += _exceptions(run.ranks, run.run_id, {match.pattern for match in matches})
        if matches:
            found.append(Told(run.run_id, run, jobs.get(run.run_id), tuple(matches)))
    taken = {run.run_id for run in snapshot.runs} | {run.job_id for run in snapshot.runs}
    launches = dict.fromkeys(m.job_id or m.run_id for m in snapshot.logs if not {m.job_id, m.run_id} & (taken - {None}))
    for name in launches:
        if name is not None:
            job = next((job for job in evidence.jobs if name in _launches(job)), None)
            matches = [match for match in snapshot.logs if name in (match.job_id, match.run_id)]
            found.append(Told(job.key if job is not None else name, None, job, tuple(matches)))
    return tuple(found)


def _launches(job: Job) -> set[str | None]:
    return {process.environment.gputop_job_id for process in job.processes if process.environment is not None}


def _exceptions(ranks: Iterable[Rank], run_id: str, known: set[str]) -> list[LogMatch]:
    found = []
    for rank in ranks:
        failure = stated_model.failure(rank)
        for text, pattern in _EXCEPTIONS.items():
            if failure is not None and text in failure.message and pattern not in known:
                found.append(LogMatch(pattern, None, failure.message, run_id, None, rank.rank, failure.where))
    return found


def quoted(match: LogMatch) -> Fact:
    """Return the line as evidence, shortened."""
    line = " ".join(match.line.split())
    text = line if len(line) <= _TEXT_MAX else f"{line[: _TEXT_MAX - 1]}…"
    who = f"rank {match.rank} said: " if match.rank is not None else ""
    if match.file is None:
        return Fact(f"{who}{text}", text, "the run's output")
    return Fact(f"{who}{text}", text, f"{match.file}:{match.line_number}" if match.line_number is not None else match.file)


def command_of(said: Told) -> str:
    """Return the command that started the run, as far as it is known."""
    if said.job is not None:
        return fixes.own_command(said.job)
    if said.run is not None and said.run.command:
        return shlex.join(said.run.command)
    return f"python {fixes.SCRIPT_UNKNOWN}"
