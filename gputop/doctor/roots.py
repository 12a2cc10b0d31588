"""Which findings another one explains, and the order in which findings are shown. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from gputop.doctor.cases import Case
from gputop.doctor.findings.finding import Confidence, Finding, Severity
from gputop.doctor.rules import BY_ID, HIDES, RULES

SEVERITY_WEIGHT: dict[Severity, float] = {"error": 3.0, "warning": 2.0, "info": 1.0}
CONFIDENCE_WEIGHT: dict[Confidence, float] = {"certain": 1.0, "likely": 0.85, "possible": 0.5}
_ROOT_ORDER = {rule.id: position for position, rule in enumerate(RULES)}


def explained(cases: Mapping[tuple[str, str], Case]) -> dict[tuple[str, str], set[str]]:
    """Return the cases that a root cause explains, with the ids of their roots. A root on the machine explains cases in every
    group.
    """
    hidden: dict[tuple[str, str], set[str]] = {}
    for (root, subject), case in cases.items():
        symptoms, explains = HIDES.get(root), BY_ID[root].hides_if
        if not symptoms or not case.shown or (explains is not None and not explains(case.finding)):
            continue
        for key, other in cases.items():
            if key[0] in symptoms and not is_rooted_in(root, key[0]) and _concerns(root, subject, case, key[1], other):
                hidden.setdefault(key, set()).add(root)
    return hidden


def _concerns(root: str, subject: str, case: Case, other_subject: str, other: Case) -> bool:
    """Return whether a root concerns the group or device of another case."""
    if BY_ID[root].subject == "group":
        return other_subject == subject or bool(case.finding.run and case.finding.run == other.finding.run)
    if case.finding.run and other.finding.run and case.finding.run != other.finding.run:
        return False
    devices = case.finding.devices
    return not devices or bool(set(devices) & set(other.finding.devices))


def is_rooted_in(root: str, symptom: str) -> bool:
    """Return whether the symptom also explains the root and comes first in root order: one of the two must stay."""
    last = len(_ROOT_ORDER)
    return root in HIDES.get(symptom, frozenset()) and _ROOT_ORDER.get(symptom, last) < _ROOT_ORDER.get(root, last)


def sort_key(finding: Finding) -> tuple[bool, float, int, str, tuple[int, ...]]:
    """Return the sort key: possible findings last, then by severity times confidence, then roots before symptoms."""
    value = SEVERITY_WEIGHT[finding.severity] * CONFIDENCE_WEIGHT[finding.confidence]
    return (
        finding.confidence == "possible",
        -value,
        _ROOT_ORDER.get(finding.id, len(_ROOT_ORDER)),
        finding.run or "",
        finding.pids,
    )
