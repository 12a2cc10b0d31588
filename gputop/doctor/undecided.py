"""What the doctor does not know yet: suspicions that need more time, and runs that have just begun. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence

from gputop.command_line import is_session, script_name
from gputop.doctor.cases import Case, hits_needed
from gputop.doctor.evidence.data_waits import STEPS_MIN
from gputop.doctor.evidence.evidence import WARM_UP_S, Evidence
from gputop.doctor.evidence.first_steps import starting_run, whereabouts
from gputop.doctor.evidence.group_past import uses_no_processor
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Undecided
from gputop.doctor.roots import explained
from gputop.doctor.rules import BY_ID
from gputop.doctor.rules.support.rule import Family
from gputop.snapshot import Process

STANDSTILLS: tuple[Family, ...] = ("hangs", "lost ranks")
"""The families of rules that say why no first step comes."""
STEPS_KNOWN_S = 10.0
"""A run whose journal shows few steps is undecided until this much was observed. Usually the first snapshot has its past."""
RANKS_KNOWN_S = 15.0
"""Spawned ranks that compute nothing are undecided until this much was observed: that they wait for one another shows late."""
RESTS_KNOWN_S = 16.0
"""Untracked processes that compute nothing are undecided until this much was observed: only then is it known that they do not
use a disk either, and rules on hangs judge them (``NO_DISK_S`` in ``rules/standstill/at_rest.py``)."""
_WATCHED = "watching for ranks that wait for one another"
Cases = Mapping[tuple[str, str], Case]


def undecided(cases: Cases, evidence: Evidence, few_steps: Collection[str], observed_s: float) -> tuple[Undecided, ...]:
    """Return suspicions not yet reported, and runs that warm up, in descending order of the time they still need.

    Suspicions that another finding explains, or that would be information only, are left out.

    Args:
        cases: The cases of the doctor.
        evidence: What it has observed, with at least one snapshot.
        few_steps: The keys of groups of which too few steps were known when every rule judged.
        observed_s: The seconds observed so far.
    """
    hidden = explained(cases)
    found = [
        Undecided(key[0], case.finding.title, _needs_s(evidence, key[0], case), case.finding.run, case.finding.pids)
        for key, case in cases.items()
        if not case.shown and case.clean == 0 and key not in hidden and case.finding.severity != "info"
    ]
    for group in evidence.groups:
        starts = _starts(cases, evidence, group)
        if starts is not None:
            found.append(starts)
        elif (group.used or group.run is not None) and not evidence.is_warm(group):
            age = min((evidence.age_s(process) for process in group.processes), default=WARM_UP_S)
            name = group.run.name if group.run is not None else f"process {group.pids[0]}" if group.pids else "a job"
            found.append(Undecided(None, f"{name} is warming up", max(0.0, WARM_UP_S - age), group.run_id, tuple(group.pids)))
        elif observed_s < RANKS_KNOWN_S and _may_wait(group):
            title = f"{words.count(len(group.processes), 'rank')} of one run compute nothing; {_WATCHED}"
            found.append(Undecided(None, title, RANKS_KNOWN_S - observed_s, None, tuple(group.pids)))
        elif observed_s < RESTS_KNOWN_S and (resting := _resting(group)):
            title = f"{_named(resting)} {words.agree(len(resting), 'computes', 'compute')} nothing; watching whether that lasts"
            found.append(Undecided(None, title, RESTS_KNOWN_S - observed_s, None, tuple(item.pid for item in resting)))
        elif group.key in few_steps and observed_s < STEPS_KNOWN_S:
            title = f"few steps of {group.run.name if group.run is not None else 'a run'} are known"
            found.append(Undecided(None, title, STEPS_KNOWN_S - observed_s, group.run_id, tuple(group.pids)))
    return tuple(sorted(found, key=lambda item: (-math.inf if item.needs_s is None else -item.needs_s, item.rule or "")))


def knows_few_steps(evidence: Evidence, group: RankGroup) -> bool:
    """Return whether a rank's journal shows too few steps for a mean: rules on the pace need more."""
    known = [evidence.series(group.run_id, rank.rank, "step_s") for rank in group.live_ranks]
    return any(0 < len(series) < STEPS_MIN for series in known)


def _starts(cases: Cases, evidence: Evidence, group: RankGroup) -> Undecided | None:
    """Return that a run of several ranks has made no step, unless a firm finding says why; None for any other group."""
    last = evidence.snapshot
    run = starting_run(last, group) if last is not None else None
    if run is None or last is None:
        return None
    own = [case for (rule, key), case in cases.items() if key == group.key and BY_ID[rule].family in STANDSTILLS]
    if any(case.shown and case.finding.confidence != "possible" for case in own):
        return None
    known = whereabouts(last, run)
    waits = f": {known.verdict}" if known is not None and known.verdict is not None else ""
    rest = WARM_UP_S - evidence.observed_s
    return Undecided(None, f"{run.name} has made no step yet{waits}; {_WATCHED}", rest if rest > 0 else None, group.run_id)


def _may_wait(group: RankGroup) -> bool:
    """Return whether nothing shows yet what spawned processes do, one of which listens for the others."""
    return group.run is None and group.shown is None and any(process.in_rendezvous for process in group.processes)


def _resting(group: RankGroup) -> list[Process]:
    """Return the processes of an untracked run if none of them computes now, unless the user types what they do."""
    processes = [member.process for member in group.members if member.process is not None] if group.run is None else []
    rest = all(process.torch_mapped and process.state == "S" and uses_no_processor(process) for process in processes)
    return processes if rest and not any(is_session(process.command) for process in processes) else []


def _named(processes: Sequence[Process]) -> str:
    name = script_name(processes[0].command)
    who = words.processes([process.pid for process in processes])
    return who if name is None else f"{who} of {name}"


def _needs_s(evidence: Evidence, rule: str, case: Case) -> float:
    if math.isinf(case.hold_s):
        return max(0.0, BY_ID[rule].window_s - evidence.observed_s)
    last = evidence.snapshot
    interval = last.interval_s if last is not None and math.isfinite(last.interval_s) else 0.0
    return max(0.0, case.hold_s - (case.confirmed - case.since), (hits_needed(case.finding) - case.hits) * interval)
