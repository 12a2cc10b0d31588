"""Observe a stream until the doctor is certain or the stream ends. A pure function of the given snapshots."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from gputop.doctor.diagnosis import SETTLED_S, Doctor
from gputop.doctor.findings.finding import Finding, Undecided
from gputop.doctor.findings.subjects import run_of
from gputop.snapshot import LIVE_STATES, Snapshot

IDLE_S = 3.0
"""The same if nothing trains: possible faults then show in single readings."""
LONGEST_S = 120.0
"""No rule needs longer than this (``Rule.window_s``)."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The final state: the findings, verdict first, and the last snapshot judged."""

    findings: tuple[Finding, ...]
    snapshot: Snapshot | None
    suppressed: tuple[Finding, ...] = ()
    """Findings that the shown ones explain."""
    undecided: tuple[Undecided, ...] = ()
    """Suspicions that are still undecided."""


def watch(
    doctor: Doctor,
    snapshots: Iterable[Snapshot],
    run: str | None = None,
    *,
    whole: bool = False,
    seen: Callable[[Outcome], None] = lambda outcome: None,
) -> Outcome:
    """Observe until the doctor has settled, or until the snapshots end.

    ``run`` (an id or a name) keeps only findings that concern that run. ``whole``: do not settle before something is certain
    (for a recording, whose faults may appear late). ``seen`` receives the outcome of each snapshot.
    """
    outcome = Outcome((), None)
    for snapshot in snapshots:
        outcome = standing(doctor, snapshot, run)
        seen(outcome)
        if settled(doctor, outcome) and not (whole and first_certain(outcome) is None):
            break
    return outcome


def settled(doctor: Doctor, outcome: Outcome) -> bool:
    """Return whether more time would change nothing, as far as the doctor knows: every rule had its time."""
    least = SETTLED_S if outcome.snapshot is not None and trains(outcome.snapshot) else IDLE_S
    return doctor.observed_s >= least and all(item.needs_s is None for item in outcome.undecided)


def first_certain(outcome: Outcome) -> Finding | None:
    """Return the first certain finding that is a warning or an error; None if there is none."""
    return next((item for item in outcome.findings if item.confidence == "certain" and item.severity != "info"), None)


def standing(doctor: Doctor, snapshot: Snapshot, run: str | None = None) -> Outcome:
    """Observe one snapshot and return the current findings of one run (an id or a name), or of all runs."""
    findings = doctor.observe(snapshot)
    if run is None:
        return Outcome(findings, snapshot, doctor.suppressed, doctor.undecided)
    wanted = {item.run_id for item in snapshot.runs if run in (item.run_id, item.name)}
    wanted |= {item.key for item in snapshot.process_runs if run in (item.key, item.name)}
    return Outcome(
        tuple(item for item in findings if run_of(item, snapshot) in wanted),
        snapshot,
        tuple(item for item in doctor.suppressed if run_of(item, snapshot) in wanted),
        tuple(item for item in doctor.undecided if run_of(item, snapshot) in wanted),
    )


def changed(before: Outcome, now: Outcome) -> bool:
    """Return whether the set of findings or of undecided suspicions differs; changed numbers in their texts do not count."""
    return _headlines(before) != _headlines(now) or _watched(before) != _watched(now)


def trains(snapshot: Snapshot) -> bool:
    """Return whether anything trains on the machine: a live run, or a process that uses a GPU or has torch loaded."""
    alive = any(run.state in LIVE_STATES for run in snapshot.runs)
    return alive or any(process.devices or process.torch_mapped for process in snapshot.processes)


def _watched(outcome: Outcome) -> set[tuple[str | None, str | None]]:
    known = outcome.snapshot
    return {(item.rule, run_of(item, known) if known is not None else item.run) for item in outcome.undecided}


def _headlines(outcome: Outcome) -> list[tuple[str, str, str, str | None, tuple[str, ...]]]:
    return [(item.id, item.severity, item.confidence, item.run, item.devices) for item in outcome.findings]
