"""The doctor's results: a finding, and its JSON form. Plain records; imports only the standard library and the snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from gputop.snapshot import SCHEMA_VERSION, encode

Severity = Literal["error", "warning", "info"]
Confidence = Literal["certain", "likely", "possible"]
State = Literal["found", "explained", "watching", "not_judged", "clean"]
"""Outcome of a rule: its finding is shown; another finding explains it; it holds, but not yet for long enough; it cannot
judge; or nothing is wrong. For a rule with several groups, the first of these states counts."""
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
CONFIDENCES: tuple[Confidence, ...] = get_args(Confidence)
STATES: tuple[State, ...] = get_args(State)
EVIDENCE = "evidence"
"""Replaces the rule id if evidence for the rules was lost (``Abstained.rule``)."""
CONFIDENCE_VALUES: dict[Confidence, float] = {"certain": 0.97, "likely": 0.85, "possible": 0.55}
"""Certain from 0.95, likely from 0.7, possible from 0.4: the middles of the bands."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One piece of evidence: the sentence, the value in it, and its source ("NVML", "journal", "/proc …")."""

    text: str
    value: Any
    source: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One fault. ``id`` is its rule's ("A07", docs/rules.md); ``devices`` are UUIDs, ``run`` is a run id.

    On the network of an untracked run over hosts, ``run`` names these: "hosts:gpu1,gpu2".
    """

    id: str
    severity: Severity
    confidence: Confidence
    title: str
    evidence: tuple[Fact, ...]
    cause: str
    fix: str
    refuted_by: str = ""
    """The observation that would prove this finding wrong."""
    devices: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()
    run: str | None = None
    suppressed_by: tuple[str, ...] = ()
    """Ids of the current findings that explain this one, which is then not shown next to them."""
    began_at: float | None = None
    """Wall-clock time since which the rule has held, in seconds since the epoch."""

    @property
    def confidence_value(self) -> float:
        """The middle of the band of ``confidence``, 0 to 1."""
        return CONFIDENCE_VALUES[self.confidence]


def is_problem(finding: Finding) -> bool:
    """Return whether something is wrong, and not only possibly: this decides exit codes."""
    return finding.severity != "info" and finding.confidence != "possible"


@dataclass(frozen=True, slots=True)
class Abstained:
    """A rule that could not judge: the rule's id, why, and what would let it judge."""

    rule: str
    why: str
    needs: str
    run: str | None = None


@dataclass(frozen=True, slots=True)
class Undecided:
    """A case that the doctor cannot decide yet: a rule that holds, but not yet for long enough, or a run that is warming up or
    has completed no step.

    ``needs_s`` is the maximum number of seconds of observation that it still needs; None: only a first step would decide it.
    """

    rule: str | None
    """The rule's id; None for a run that is warming up or has completed no step."""
    title: str
    needs_s: float | None
    run: str | None = None
    pids: tuple[int, ...] = ()
    """Its processes, which tell which untracked run it is about."""


@dataclass(frozen=True, slots=True)
class Episode:
    """A finding over its lifetime. Times are wall clock, in seconds since the epoch; ``ended_at`` None: it still holds."""

    finding: Finding
    began_at: float
    ended_at: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of one rule at the last snapshot, the worst over groups and devices.

    ``explained_by`` names the rules that explain it; ``threshold`` says in words when the rule reports.
    """

    rule: str
    family: str
    state: State
    threshold: str
    explained_by: tuple[str, ...] = ()


def findings_json(
    findings: Sequence[Finding],
    suppressed: Sequence[Finding] = (),
    abstained: Sequence[Abstained] = (),
    undecided: Sequence[Undecided] = (),
) -> dict[str, Any]:
    """Return the JSON of ``gputop doctor --json``: findings, verdict first, those they explain, and unknowns.

    "verdict" is "problem", "undecided", "possible" (no finding is more than that) or "nothing found" (there may still be
    findings of severity "info").
    """
    rest = "possible" if any(finding.severity != "info" for finding in findings) else "nothing found"
    return {
        "schema_version": SCHEMA_VERSION,
        "verdict": "problem" if any(map(is_problem, findings)) else "undecided" if undecided else rest,
        "findings": [finding_json(finding) for finding in findings],
        "suppressed": [finding_json(finding) for finding in suppressed],
        "not_judged": [encode(item) for item in abstained],
        "undecided": [encode(item) for item in undecided],
    }


def finding_json(finding: Finding) -> dict[str, Any]:
    """Return one finding as in ``--json``, with ``confidence_value``, and a place for its untracked run's key."""
    return {**encode(finding), "confidence_value": finding.confidence_value, "process_run": None}
