"""When a suspicion becomes a finding, and when it ends: what each rule has observed of each subject. Pure.

A finding appears once its rule has held for the rule's hold time; a likely one also needs three observations. It disappears
after five clean observations, so one odd reading neither raises nor clears it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from gputop.doctor.findings.finding import Abstained, Finding
from gputop.doctor.rules import Judgement, Suspicion

LIKELY_AFTER = 3
CLEAR_AFTER = 5
"""How many observations a likely finding needs, and how many clean ones end a finding (docs/rules.md#confidence)."""
UNCONFIRMED_S = 30.0
"""A finding disappears after this time if its rule can no longer judge."""


@dataclass(slots=True)
class Case:
    """What one rule has observed of one subject. Times are ``Snapshot.monotonic_s``; ``began_at`` is a wall clock."""

    finding: Finding
    since: float
    confirmed: float
    hits: int = 0
    clean: int = 0
    shown: bool = False
    firm_since: float | None = None
    """When the rule's judgement last became firmer than "possible"; ``firm_hits`` counts the observations since then."""
    firm_hits: int = 0
    began_at: float | None = None
    hold_s: float = 0.0
    """How long the rule must hold; infinite while the subject has not been observed for long enough."""


def updated(case: Case | None, judgement: Judgement, now: float, wall: float | None) -> Case | None:
    """Return the case after one more judgement; None if it is over. ``now`` is the stream's time, ``wall`` the time of day."""
    if isinstance(judgement, Suspicion):
        if case is None:
            case = Case(judgement.finding, now, now, began_at=wall)
        _confirm(case, judgement, now)
        return case
    if case is None:
        return None
    if isinstance(judgement, Abstained):
        return case if now - case.confirmed <= UNCONFIRMED_S else None
    case.clean += 1
    return case if case.shown and case.clean < CLEAR_AFTER else None


def _confirm(case: Case, suspicion: Suspicion, now: float) -> None:
    case.confirmed, case.clean, case.hold_s = now, 0, suspicion.hold_s
    case.hits += 1
    enough = hits_needed(suspicion.finding)
    if suspicion.finding.confidence == "possible":
        case.firm_since, case.firm_hits = None, 0
    else:
        case.firm_since = case.firm_since if case.firm_since is not None else now
        case.firm_hits += 1
        firm = case.firm_hits >= enough and now - case.firm_since >= suspicion.hold_s
        if case.shown and case.finding.confidence == "possible" and not firm:
            return  # Upgrading a "possible" finding takes as long as raising it.
    case.finding = replace(suspicion.finding, began_at=case.began_at)
    case.shown = case.shown or (case.hits >= enough and now - case.since >= suspicion.hold_s)


def hits_needed(finding: Finding) -> int:
    """Return how many observations a finding needs before it is shown."""
    return 1 if finding.confidence == "certain" else LIKELY_AFTER
