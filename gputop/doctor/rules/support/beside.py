"""Where the main threads of a tracked run are seen, by their stacks, while they compute nothing, and pauses there (E07)."""

from __future__ import annotations

import itertools
from typing import NamedTuple

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.outside_phases import share_outside
from gputop.doctor.rules.support.policies import learns_policy
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.whereabouts.records import Activity

SPAN_S = 40.0
LOOKS_MIN = 20
"""As for an untracked run."""
SHARE_MIN = 0.25
"""A function is named from this share of all looks on (our choice)."""
PAUSES_SHARE, PAUSES_MIN, WITHIN_SHARE = 0.4, 2, 0.2
"""A loop pauses in a function in which it is so often, repeatedly, if so little of its steps is outside phases (our choice)."""


class Beside(NamedTuple):
    """The function in which one rank is mostly seen while it computes nothing."""

    function: str
    line: str
    activity: Activity
    share: float
    times: int
    """How often the rank was seen to begin something else: in a pause of several seconds, that is once."""
    rank: int | None
    fact: Fact


def seen_beside(evidence: Evidence, group: RankGroup) -> Beside | None:
    """Return where the rank is that is most often seen beside its computation; None if none is, or if too little is seen."""
    memo: dict[str, Beside | None] = evidence.memo.setdefault("beside", {})
    if group.key not in memo:
        memo[group.key] = _seen_beside(evidence, group)
    return memo[group.key]


def _seen_beside(evidence: Evidence, group: RankGroup) -> Beside | None:
    found = []
    for member in group.members:
        seen = evidence.doings.seen(member.process, SPAN_S) if member.process is not None else None
        beside = seen.mostly_beside() if seen is not None and len(seen.looks) >= LOOKS_MIN else None
        if seen is None or beside is None or beside[1] < SHARE_MIN or member.process is None:
            continue
        at, share = beside
        name = f"rank {member.rank}" if member.rank is not None else f"process {member.process.pid}"
        text = f"the main thread of {name} is in {at.function} in {share:.0%} of {words.count(len(seen.looks), 'look')} at its "
        text += f"stack, mostly at {at.line}"
        fact = Fact(text, round(share, 2), f"/proc/{member.process.pid}/mem")
        there = [look.function == at.function for look in seen.looks]
        times = sum(now and not before for before, now in itertools.pairwise((False, *there)))
        found.append(Beside(at.function or "", at.line or "", at.activity, share, times, member.rank, fact))
    return max(found, key=lambda item: item.share, default=None)


def pauses_beside(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge E07 by stacks: a rank is often in one function that computes nothing, and not within its steps."""
    ranks = tracked.ranks_of(group)
    if group.run is None or learns_policy(ranks):
        return None
    beside = seen_beside(evidence, group)
    if beside is None or beside.share < PAUSES_SHARE or beside.times < PAUSES_MIN:
        return None
    within = [share_outside(evidence, group, rank) for rank in ranks if beside.rank in (rank.rank, None)]
    if not within or any(share is None or share[0] > WITHIN_SHARE for share in within):
        return None
    finding = tracked.about(
        group,
        "E07",
        "warning",
        "possible",
        f"The loop pauses again and again in {beside.function} ({beside.line}): {beside.share:.0%} of the time",
        [beside.fact],
        "Between two steps, the loop computes a metric of an evaluation, writes, or does other work. Nothing trains meanwhile.",
        f"# do it less often, on fewer samples, or in another process: what does {beside.function} do?",
        "The length and frequency of the pauses are intentional.",
    )
    return Suspicion(finding, 3.0)
