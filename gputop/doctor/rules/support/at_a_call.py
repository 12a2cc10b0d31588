"""Ranks of an untracked run that are often seen at one kind of call in each step, by the line of the user's own code. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from gputop.doctor.evidence.doings import Seen
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact
from gputop.whereabouts.records import Doing

SPAN_S = 40.0
LOOKS_MIN = 20
SEEN_SHARE = 0.25
"""The call is reported if each rank is at it in this share of the looks; with this few, the share is known to within 0.2 (our
choice). A rank for which the others wait is not there."""
TOGETHER_SHARE = 0.4
"""If all ranks are in a collective at once in this share of the looks, that takes much of the time: twice the share of DDP's
counters, because looks are few (our choice)."""
COMPUTES_MIN = 3
"""Each rank must be seen in its model this often: ranks that are only seen at the call may hang there (our choice)."""
_SHOWN_MAX = 4


def of_text(pattern: re.Pattern[str]) -> Callable[[Doing], bool]:
    """Return what recognizes a call by its line."""
    return lambda look: pattern.search(look.text or "") is not None


def seen_at_call(evidence: Evidence, group: RankGroup, is_call: Callable[[Doing], bool]) -> tuple[float, list[Fact]] | None:
    """Return in which share of the looks each rank is at the call, at least, and where; None if that is seldom or unknown."""
    if len(group.members) < 2 or not evidence.is_warm(group):
        return None
    looks = [(member, evidence.doings.seen(member.process, SPAN_S)) for member in group.members if member.process is not None]
    if len(looks) < len(group.members) or not all(_trains(seen) for _, seen in looks):
        return None
    shares = [sum(map(is_call, seen.looks)) / len(seen.looks) for _, seen in looks]
    if min(shares) < SEEN_SHARE:
        return None
    facts = []
    for (member, seen), share in list(zip(looks, shares, strict=True))[:_SHOWN_MAX]:
        assert member.process is not None
        name = f"rank {member.rank}" if member.rank is not None else f"process {member.process.pid}"
        at = next(look for look in seen.looks if is_call(look))
        text = f"the main thread of {name} was at {at.place} in {share:.0%} of {words.count(len(seen.looks), 'look')} at "
        facts.append(Fact(f"{text}its stack", round(share, 2), f"/proc/{member.process.pid}/mem"))
    return min(shares), facts


def in_collectives(evidence: Evidence, group: RankGroup) -> tuple[float, int] | None:
    """Return in which share of the looks all ranks are in a collective at once, and of how many; None if seldom or unknown.

    While one rank is late, or they take turns at a core, at least one of them does something else.
    """
    processes = [member.process for member in group.members if member.process is not None]
    if len(processes) < max(2, group.world_size) or not evidence.is_warm(group):
        return None
    looks = evidence.doings.together(processes, SPAN_S)
    if len(looks) < LOOKS_MIN or not all(_goes_on([seen[place] for seen in looks]) for place in range(len(processes))):
        return None
    share = sum(all(look.activity == "collective" for look in seen) for seen in looks) / len(looks)
    return (share, len(looks)) if share >= TOGETHER_SHARE else None


def _goes_on(looks: Sequence[Doing]) -> bool:
    """Return whether a main thread computes again and again, and did so in the newest third of the looks."""
    computing = [place for place, look in enumerate(looks) if look.activity in ("forward", "backward", "optimizer")]
    return len(computing) >= COMPUTES_MIN and computing[-1] >= len(looks) * 2 // 3


def _trains(seen: Seen) -> bool:
    in_model = sum(look.activity in ("forward", "backward") for look in seen.looks)
    return len(seen.looks) >= LOOKS_MIN and in_model >= COMPUTES_MIN and seen.trains
