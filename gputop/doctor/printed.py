"""Judge the metrics printed in a log with the rules that judge a run's metrics. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gputop.doctor.diagnosis import Doctor
from gputop.doctor.findings.finding import CONFIDENCES, SEVERITIES, Finding
from gputop.doctor.logs.last_words import says_no_cause
from gputop.doctor.logs.meaning.explain import Explanation
from gputop.doctor.rules import BY_ID, RULES
from gputop.snapshot import Host, Points, Run, Snapshot

FROM_PRINTED = frozenset(rule.id for rule in RULES if rule.from_printed)
LOOKS = 20
"""After this many observations, one second apart, each of these rules has held for as long as it must."""


def with_printed(explanation: Explanation, printed: Sequence[Finding]) -> tuple[Finding, ...]:
    """Return the findings on a log: what ended the run, then all others, the worst and most certain first.

    If its last words only show how it ended, what may be the cause comes before them.
    A fact about every run of its kind, such as the threads that torchrun sets, comes last.
    """
    known = [*printed, *explanation.findings]
    printed = [finding for finding in printed if not any(_hides(other, finding) for other in known)]
    needless = {text for finding in printed for text in BY_ID[finding.id].texts}
    first = explanation.findings[: int(explanation.ended)]
    # What the run does says more than a remark of a library.
    rest = [*printed, *(item for item in explanation.findings[len(first) :] if item.id not in needless)]
    rest.sort(key=_weight)
    if any(map(says_no_cause, first)):
        telling = [finding for finding in rest if finding.severity != "info"]
        return (*telling, *first, *(finding for finding in rest if finding not in telling))
    return (*first, *rest)


def _hides(finding: Finding, other: Finding) -> bool:
    """Return whether a finding explains another one, by the rulebook, and is as certain."""
    surer = CONFIDENCES.index(finding.confidence) <= CONFIDENCES.index(other.confidence)
    rule = BY_ID.get(finding.id)
    return rule is not None and finding is not other and surer and (other.id in rule.hides or other.id in rule.hides_in_logs)


def _weight(finding: Finding) -> tuple[bool, bool, int]:
    is_fact = (finding.severity, finding.confidence) == ("info", "certain")
    return is_fact, finding.confidence == "possible", SEVERITIES.index(finding.severity)


def judge(run: Run, points: Sequence[Points]) -> tuple[Finding, ...]:
    """Return the findings on a run for which only these metrics are known, verdict first."""
    doctor = Doctor()
    found: tuple[Finding, ...] = ()
    for second in range(LOOKS):
        snapshot = Snapshot(
            second, 0.0, float(second), 1.0, Host("log"), runs=(run,), points=tuple(points) if not second else ()
        )
        found = doctor.observe(snapshot)
    return tuple(replace(finding, run=None, began_at=None) for finding in found if finding.id in FROM_PRINTED)
