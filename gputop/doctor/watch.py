"""Observe a stream until the doctor is certain or the stream ends. A pure function of the given snapshots."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gputop.doctor.diagnosis import Doctor
from gputop.doctor.findings.finding import Finding
from gputop.snapshot import LIVE_STATES, Snapshot


@dataclass(frozen=True, slots=True)
class Outcome:
    """The final state: the findings, verdict first, and the last snapshot judged."""

    findings: tuple[Finding, ...]
    snapshot: Snapshot | None
    suppressed: tuple[Finding, ...] = ()
    """Findings that the shown ones explain."""


def watch(doctor: Doctor, snapshots: Iterable[Snapshot], run: str | None = None) -> Outcome:
    """Observe until there is a certain finding more severe than "info", or until the snapshots end.

    ``run`` (an id or a name) keeps only the findings of that run.
    """
    outcome = Outcome((), None)
    for snapshot in snapshots:
        outcome = standing(doctor, snapshot, run)
        if any(item.confidence == "certain" and item.severity != "info" for item in outcome.findings):
            break
    return outcome


def standing(doctor: Doctor, snapshot: Snapshot, run: str | None = None) -> Outcome:
    """Observe one snapshot and return the current findings of one run (an id or a name), or of all runs."""
    findings = doctor.observe(snapshot)
    if run is None:
        return Outcome(findings, snapshot, doctor.suppressed)
    wanted = {item.run_id for item in snapshot.runs if run in (item.run_id, item.name)}
    of_run = (tuple(item for item in found if item.run in wanted) for found in (findings, doctor.suppressed))
    return Outcome(next(of_run), snapshot, next(of_run))


def changed(before: Outcome, now: Outcome) -> bool:
    """Return whether the set of findings differs; changed numbers in their evidence do not count."""
    return _heads(before) != _heads(now)


def trains(snapshot: Snapshot) -> bool:
    """Return whether anything trains on the machine: a live run, or a process that uses a GPU or has torch loaded."""
    alive = any(run.state in LIVE_STATES for run in snapshot.runs)
    return alive or any(process.devices or process.torch_mapped for process in snapshot.processes)


def _heads(outcome: Outcome) -> list[tuple[str, str, str, str | None, tuple[str, ...]]]:
    return [(item.id, item.severity, item.confidence, item.run, item.devices) for item in outcome.findings]
