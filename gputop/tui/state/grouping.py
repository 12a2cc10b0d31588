"""Findings as the screens list them: one for each problem of a run, however many ranks or devices have it. Pure.

The doctor judges each device and each process; a screen that repeats one sentence eight times hides the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from gputop import units
from gputop.doctor.findings.subjects import run_of
from gputop.snapshot import ENDED_STATES, Snapshot

if TYPE_CHECKING:
    from gputop.doctor.findings.finding import Finding

_PLURALS = {"GPU": "GPUs", "rank": "ranks", "Rank": "Ranks", "process": "processes", "Process": "Processes", "PID": "PIDs"}
_VERBS = {
    "is": "are",
    "has": "have",
    "was": "were",
    "does": "do",
    "holds": "hold",
    "needs": "need",
    "runs": "run",
    "waits": "wait",
}


def listed(findings: Sequence[Finding], snapshot: Snapshot) -> tuple[Finding, ...]:
    """Return the findings in their order: those of one rule on one run merged, those without a living subject dropped.

    If a live run has a problem, findings about runs that have ended come last.
    """
    groups: dict[tuple[object, ...], list[Finding]] = {}
    for finding in findings:
        if not _is_gone(finding, snapshot):
            key = (finding.id, finding.severity, finding.confidence, run_of(finding, snapshot), len(finding.title.split()))
            groups.setdefault(key, []).append(finding)
    found = [_joined(group, snapshot) for group in groups.values()]
    ended = {run.run_id for run in snapshot.runs if run.state in ENDED_STATES}
    of_live = (run_of(finding, snapshot) for finding in found if finding.severity != "info")
    if any(run is not None and run not in ended for run in of_live):
        found.sort(key=lambda finding: finding.run in ended)
    return tuple(found)


def _is_gone(finding: Finding, snapshot: Snapshot) -> bool:
    if finding.run is None:
        return False
    runs = {run.run_id for run in snapshot.runs} | {run.key for run in snapshot.process_runs}
    runs |= {match.run_id for match in snapshot.logs if match.run_id is not None}  # a run's output outlives it
    return finding.run not in runs and not {process.pid for process in snapshot.processes} & set(finding.pids)


def _joined(group: Sequence[Finding], snapshot: Snapshot) -> Finding:
    """Return one finding for a whole group: the evidence of each, and each fix once."""
    first = group[0]
    if len(group) == 1:
        return first
    facts = []
    for finding in group:
        who = _who(finding, snapshot)
        for fact in finding.evidence:
            shared = all(any(fact.text == other.text for other in one.evidence) for one in group)
            if not shared and who and who.casefold() not in fact.text.casefold():
                fact = replace(fact, text=f"{who}: {fact.text}")
            facts.append(fact)
    unique = {fact.text: fact for fact in facts}
    began = [finding.began_at for finding in group if finding.began_at is not None]
    return replace(
        first,
        title=_title([finding.title for finding in group]),
        evidence=tuple(unique.values()),
        cause="\n".join(dict.fromkeys(finding.cause for finding in group)),
        fix="\n".join(dict.fromkeys(finding.fix for finding in group)),
        refuted_by="\n".join(dict.fromkeys(finding.refuted_by for finding in group if finding.refuted_by)),
        devices=tuple(dict.fromkeys(uuid for finding in group for uuid in finding.devices)),
        pids=tuple(dict.fromkeys(pid for finding in group for pid in finding.pids)),
        suppressed_by=tuple(dict.fromkeys(root for finding in group for root in finding.suppressed_by)),
        began_at=min(began, default=None),
    )


def _who(finding: Finding, snapshot: Snapshot) -> str:
    """Return the subject of a finding: its rank, else its device, else its process."""
    ranks = [process.rank for process in snapshot.processes if process.pid in finding.pids and process.rank is not None]
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    indices = [device.index for device in snapshot.devices if device.uuid in finding.devices]
    if len(indices) == 1:
        return f"GPU {indices[0]}"
    return f"process {finding.pids[0]}" if len(finding.pids) == 1 else ""


def _title(titles: Sequence[str]) -> str:
    """Return the titles as one: numbers of ranks, GPUs and processes joined ("ranks 0-3"), other differences as "…"."""
    rows = [title.split() for title in titles]
    words = list(rows[0])
    plural_at: int | None = None
    for place, column in enumerate(zip(*rows, strict=True)):
        if len(set(column)) == 1:
            continue
        before = words[place - 1] if place else ""
        bare = before.lstrip("(")
        numbers = [word.rstrip(",:;)") for word in column]
        if bare in _PLURALS and all(number.isascii() and number.isdigit() for number in numbers):
            words[place - 1] = before.removesuffix(bare) + _PLURALS[bare]
            tail = words[place][len(numbers[0]) :]
            words[place] = units.ranges(map(int, numbers)) + tail
            plural_at = place if place == 1 else plural_at
        elif words[place] != "…":
            words[place] = "…"
    if plural_at is not None:
        verb = next((place for place in range(plural_at + 1, len(words)) if words[place] in _VERBS), None)
        if verb is not None:
            words[verb] = _VERBS[words[verb]]
    return " ".join(words)
