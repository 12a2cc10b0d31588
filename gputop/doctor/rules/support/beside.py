"""Where the main threads of a tracked run are seen, by their stacks, while they compute nothing. Pure."""

from __future__ import annotations

from typing import NamedTuple

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact
from gputop.whereabouts.records import Activity

SPAN_S = 40.0
LOOKS_MIN = 20
"""As for an untracked run."""
SHARE_MIN = 0.25
"""A function is named from this share of all looks on (our choice)."""


class Beside(NamedTuple):
    """The function in which one rank is mostly seen while it computes nothing."""

    function: str
    line: str
    activity: Activity
    share: float
    fact: Fact


def seen_beside(evidence: Evidence, group: RankGroup) -> Beside | None:
    """Return where the rank is that is most often seen beside its computation; None if none is, or if too little is seen."""
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
        found.append(Beside(at.function or "", at.line or "", at.activity, share, fact))
    return max(found, key=lambda item: item.share, default=None)
