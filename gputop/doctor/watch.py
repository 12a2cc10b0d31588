"""Watches a stream until the doctor is certain or the stream ends. Pure over the snapshots it is given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gputop.doctor.diagnosis import Doctor
from gputop.doctor.finding import Finding
from gputop.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Outcome:
    """What stood at the end: the findings, verdict first, and the snapshot that they were last judged on."""

    findings: tuple[Finding, ...]
    snapshot: Snapshot | None
    suppressed: tuple[Finding, ...] = ()
    """What the findings explain."""


def watch(doctor: Doctor, snapshots: Iterable[Snapshot], run: str | None = None) -> Outcome:
    """Observe until a certain finding that is more than information stands, or until the snapshots end.

    ``run`` (an id or a name) keeps only findings of that run.
    """
    findings: tuple[Finding, ...] = ()
    wanted: set[str] = set()
    last: Snapshot | None = None
    for last in snapshots:
        wanted = {item.run_id for item in last.runs if run in (item.run_id, item.name)}
        findings = tuple(item for item in doctor.observe(last) if run is None or item.run in wanted)
        if any(item.confidence == "certain" and item.severity != "info" for item in findings):
            break
    suppressed = tuple(item for item in doctor.suppressed if run is None or item.run in wanted)
    return Outcome(findings, last, suppressed)
