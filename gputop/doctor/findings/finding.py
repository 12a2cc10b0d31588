"""What the doctor says: a finding, and its JSON form. Plain records; imports nothing but the standard library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from gputop.snapshot import SCHEMA_VERSION, encode

Severity = Literal["error", "warning", "info"]
Confidence = Literal["certain", "likely", "possible"]
State = Literal["found", "explained", "watching", "not_judged", "clean"]
"""What came of a rule: its finding is shown; another one explains it; it holds, but not yet for long enough; it cannot tell; or
nothing is wrong. Of a rule with several jobs, the state that stands first here counts."""
SEVERITIES: tuple[Severity, ...] = get_args(Severity)
CONFIDENCES: tuple[Confidence, ...] = get_args(Confidence)
STATES: tuple[State, ...] = get_args(State)
EVIDENCE = "evidence"
"""Stands for a rule's id where what the rules judge by was lost (``Abstained.rule``)."""
CONFIDENCE_VALUES: dict[Confidence, float] = {"certain": 0.97, "likely": 0.85, "possible": 0.55}
"""Certain from 0.95, likely from 0.7, possible from 0.4: the middles of the bands."""


@dataclass(frozen=True, slots=True)
class Fact:
    """One piece of evidence: the sentence, the value in it, and where the value comes from ("NVML", "journal", "/proc …")."""

    text: str
    value: Any
    source: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing wrong. ``id`` is its rule's ("A07", docs/rules.md); ``devices`` are UUIDs, ``run`` a run id."""

    id: str
    severity: Severity
    confidence: Confidence
    title: str
    evidence: tuple[Fact, ...]
    cause: str
    fix: str
    refuted_by: str = ""
    """What one would have to see for this finding to be wrong."""
    devices: tuple[str, ...] = ()
    pids: tuple[int, ...] = ()
    run: str | None = None
    suppressed_by: tuple[str, ...] = ()
    """Ids of the findings that stand and explain this one, which is then not shown beside them."""
    began_at: float | None = None
    """Wall clock since when the rule has held, seconds since the epoch."""

    @property
    def confidence_value(self) -> float:
        """The middle of the band of ``confidence``, 0 to 1."""
        return CONFIDENCE_VALUES[self.confidence]


@dataclass(frozen=True, slots=True)
class Abstained:
    """A rule that could not judge: the rule's id, why, and what would let it judge."""

    rule: str
    why: str
    needs: str
    run: str | None = None


@dataclass(frozen=True, slots=True)
class Episode:
    """A finding that stood for a while. Times are wall clock, seconds since the epoch; ``ended_at`` None: it still stands."""

    finding: Finding
    began_at: float
    ended_at: float | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one rule at the last snapshot, the worst over jobs and devices.

    ``explained_by`` names the rules that explain it; ``threshold`` says in words when the rule reports.
    """

    rule: str
    family: str
    state: State
    threshold: str
    explained_by: tuple[str, ...] = ()


def findings_json(
    findings: Sequence[Finding], suppressed: Sequence[Finding] = (), abstained: Sequence[Abstained] = ()
) -> dict[str, Any]:
    """Return the findings, verdict first, as ``gputop doctor --json`` prints them, what they explain, and what is unknown."""
    return {
        "schema_version": SCHEMA_VERSION,
        "findings": [finding_json(finding) for finding in findings],
        "suppressed": [finding_json(finding) for finding in suppressed],
        "not_judged": [encode(item) for item in abstained],
    }


def finding_json(finding: Finding) -> dict[str, Any]:
    """Return one finding as it stands in ``--json``, with ``confidence_value``."""
    return {**encode(finding), "confidence_value": finding.confidence_value}
