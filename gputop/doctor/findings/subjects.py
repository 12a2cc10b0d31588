"""Which run a finding or a suspicion is about, and its name among several runs.

An untracked run has no ID: its processes identify it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from gputop.snapshot import LIVE_STATES, ProcessRun, Snapshot

if TYPE_CHECKING:
    from gputop.doctor.findings.finding import Finding, Undecided


def untracked_run_of(finding: Finding | Undecided, snapshot: Snapshot) -> ProcessRun | None:
    """Return the untracked run whose processes a finding is about; None if it names a tracked run or concerns several runs."""
    if finding.run is not None or not finding.pids:
        return None
    pids = set(finding.pids)
    found = [run for run in snapshot.process_runs if any(rank.pid in pids for rank in run.ranks)]
    return found[0] if len(found) == 1 else None


def run_of(finding: Finding | Undecided, snapshot: Snapshot) -> str | None:
    """Return the id of the finding's run, or the key of the untracked run that it is about; else None."""
    untracked = untracked_run_of(finding, snapshot)
    return finding.run if untracked is None else untracked.key


def add_process_runs(rows: Iterable[dict[str, Any]], findings: Iterable[Finding], snapshot: Snapshot | None) -> None:
    """Add to each finding's JSON the key of the untracked run that it is about ("process_run"); None if it is about none."""
    for row, finding in zip(rows, findings, strict=True):
        run = untracked_run_of(finding, snapshot) if snapshot is not None else None
        row["process_run"] = run.key if run is not None else None


def names_of_runs(snapshot: Snapshot) -> dict[str, str]:
    """Return the names of the runs by id or key, if findings must name their run because several are known; else nothing.

    A process ID distinguishes untracked runs with the same name.
    """
    tracked = [run for run in snapshot.runs if run.run_id not in snapshot.untracked_ids]
    if len(tracked) + len(snapshot.process_runs) < 2:
        return {}
    names = {run.run_id: run.name for run in tracked}
    alive = [run.name for run in tracked if run.state in LIVE_STATES]
    times = Counter((*alive, *(run.name for run in snapshot.process_runs)))
    for run in snapshot.process_runs:
        one = f", process {run.ranks[0].pid}" if times[run.name] > 1 and run.ranks else ""
        names |= dict.fromkeys((run.key, *run.curve_ids), f"{run.name}{one}")
    return names


def name_of(finding: Finding | Undecided, snapshot: Snapshot, names: dict[str, str]) -> str:
    """Return the name of a finding's run among ``names_of_runs``; "" if it needs none."""
    return names.get(run_of(finding, snapshot) or "", "")
