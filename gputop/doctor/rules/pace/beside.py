"""What main threads are seen to do besides training, by their stacks: where, and for what a loop pauses (for D01, E07, E10).

The same for tracked and untracked runs. Of a tracked run, the journal knows what passes within a step: there, a pause is what
happens between two steps. What a look at a stack means is decided in ``whereabouts.activities``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from gputop.doctor.evidence.doings import Pauses, Seen
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import Member, RankGroup
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.outside_phases import share_outside
from gputop.doctor.rules.support.policies import learns_policy
from gputop.whereabouts.records import Activity, Doing

SPAN_S = 40.0
LONG_SPANS_S = (120.0, 240.0)
"""How far back looks count for pauses that come seldom."""
LOOKS_MIN = 20
"""With this few looks, a share of 0.4 is known to within 0.22 (two standard deviations of a binomial share)."""
TIMES_MIN, TIMES_LONG_MIN = 4, 3
"""It must begin this often; in a longer span, the second: a data set that is prepared once, before training, does not count."""
SPANS = ((SPAN_S, TIMES_MIN), *((span_s, TIMES_LONG_MIN) for span_s in LONG_SPANS_S))
PAUSE_SHARE = 0.25
"""Share of the time that pauses take. As by the times of ``torch.save``."""
EVALUATION_SHARE, EVALUATION_MAX_SHARE = 0.5, 0.8
"""With more, evaluation is the work itself (our choice, as by the journal)."""
WORK_SHARE = 0.4
"""A known kind of work is reported if it takes this share of each step, or ``PAUSE_SHARE`` if it pauses the loop for longer
than the time between two looks (our choice)."""
LONGEST, LONGEST_OF_STEPS = 0.5, 0.7
"""The longest pause takes at most this share of the time; the second is for work in each step: if that takes most of the time,
few looks interrupt it (our choice)."""
WITHIN_SHARE = 0.2
"""If more of a tracked run's steps is outside their phases, the work is within the steps: then D01 judges (our choice)."""
ENVIRONMENT_SHARE = 0.1
"""If an environment takes this share of the time, data comes from there (our choice)."""
SHARE_MIN, BUSY_SHARE = 0.25, 0.5
"""A function that computes nothing is reported from this share of all looks, and explains a slow step from the second (our
choice)."""
LONGEST_BESIDE = 0.8
"""The longest stay in such a function takes at most this share of the time: then the steps do it again and again (our
choice)."""
_IN_EACH_STEP: frozenset[Activity] = frozenset(("files", "memory", "metrics", "report"))
"""What is no data that a step waits for, even if each step does it."""
_SAVES: tuple[Activity, ...] = ("checkpoint", "files")
"""What is no work of an environment, whatever a run learns."""
_SHARES: Mapping[Activity, float] = {"evaluation": EVALUATION_SHARE, "generation": WORK_SHARE}


class Pause(NamedTuple):
    """Other work of one main thread."""

    member: Member
    seen: Seen
    pauses: Pauses
    at: Doing
    """What it mostly does in the pauses, and where."""


class Beside(NamedTuple):
    """The function in which one main thread is mostly seen while it computes nothing."""

    at: Doing
    """Of the function's lines, the most frequent one."""
    share: float
    fact: Fact


def pause_of(evidence: Evidence, group: RankGroup) -> Pause | None:
    """Return the work for which a main thread pauses again and again, or that it does in each step."""
    memo: dict[str, Pause | None] = evidence.memo.setdefault("pause", {})
    if group.key not in memo:
        memo[group.key] = next(_pauses(evidence, group), None)
    return memo[group.key]


def _pauses(evidence: Evidence, group: RankGroup) -> Iterator[Pause]:
    for span_s, times_min in SPANS:
        found = _looks(evidence, group, span_s)
        for member, seen in found or seen_to_save(evidence, group, span_s):
            pauses = seen.pauses if found else seen.pauses.at(*_SAVES)
            at = pauses.mostly
            if at is None or not seen.trains or pauses.share < _SHARES.get(at.activity, PAUSE_SHARE):
                continue
            if not _between_steps(evidence, group, member):
                continue
            each = at.activity in _IN_EACH_STEP and pauses.share >= WORK_SHARE
            each = each and repeated(pauses.lengths, TIMES_LONG_MIN, LONGEST_OF_STEPS)
            if each or (pauses.last and pauses.share <= EVALUATION_MAX_SHARE and repeated(pauses.lengths, times_min)):
                yield Pause(member, seen, pauses, at)


def _between_steps(evidence: Evidence, group: RankGroup, member: Member) -> bool:
    """Return whether a tracked rank does little outside the phases of its steps; True for untracked runs."""
    if group.run is None:
        return True
    outside = share_outside(evidence, group, member.journal) if member.journal is not None else None
    return outside is not None and outside[0] <= WITHIN_SHARE


def repeated(lengths: Sequence[int], times_min: int, longest: float = LONGEST) -> bool:
    """Return whether there are enough pauses, and not one of them takes most of the time."""
    return len(lengths) >= times_min and max(lengths) <= longest * sum(lengths)


def seen_beside(evidence: Evidence, group: RankGroup) -> Beside | None:
    """Return where the rank of a tracked run is that is most often seen outside its computation; None if none is."""
    memo: dict[str, Beside | None] = evidence.memo.setdefault("beside", {})
    if group.key not in memo:
        found = [_beside(member, seen) for member, seen in _looks(evidence, group, SPAN_S)]
        known = [beside for beside in found if beside is not None and beside.share >= SHARE_MIN]
        memo[group.key] = max(known, key=lambda item: item.share, default=None)
    return memo[group.key]


def busy_beside(evidence: Evidence, group: RankGroup) -> Fact | None:
    """Return in which function main threads are seen most of the time while they compute nothing; None if in none.

    A step that grows on purpose, with thawed layers or longer sequences, grows where it computes.
    """
    for member, seen in itertools.chain.from_iterable(seen_of_all(evidence, group, span_s) for span_s, _ in SPANS):
        beside = _beside(member, seen)
        if beside is None or not repeated(seen.lengths_in(beside.at.function), 1, LONGEST_BESIDE):
            continue
        if beside.share >= BUSY_SHARE and seen.trains:
            return beside.fact
    return None


def _beside(member: Member, seen: Seen) -> Beside | None:
    found = seen.mostly_beside()
    if found is None or member.process is None:
        return None
    at, share = found
    text = f"the main thread of {name_of(member)} is in {at.function} in {share:.0%} of {words.count(len(seen.looks), 'look')} "
    text += f"at its stack, mostly at {at.line}{f': `{at.text}`' if at.text else ''}"
    return Beside(at, share, Fact(text, round(share, 2), f"/proc/{member.process.pid}/mem"))


def seen_of_all(evidence: Evidence, group: RankGroup, span_s: float = SPAN_S) -> Sequence[tuple[Member, Seen]]:
    """Return the looks at the main threads of all ranks of an untracked run; nothing unless there are enough of each.

    Where an environment takes part of the time, its data comes from there.
    """
    memo: dict[tuple[str, float], Sequence[tuple[Member, Seen]]] = evidence.memo.setdefault("seen of all", {})
    if (group.key, span_s) not in memo:
        memo[group.key, span_s] = _seen_of_all(evidence, group, span_s)
    return memo[group.key, span_s]


def _seen_of_all(evidence: Evidence, group: RankGroup, span_s: float) -> Sequence[tuple[Member, Seen]]:
    if group.run is not None or not group.members or not evidence.is_warm(group):
        return ()
    if learns_policy(logged.ranks_of(group)):
        return ()
    found = _enough(evidence, group, span_s)
    if len(found) < len(group.members):
        return ()
    return () if any(seen.share("environment") >= ENVIRONMENT_SHARE for _, seen in found) else found


def seen_to_save(evidence: Evidence, group: RankGroup, span_s: float) -> Sequence[tuple[Member, Seen]]:
    """Return the looks at the main threads of a run, also where an environment takes part of the time: for what it writes."""
    found = _enough(evidence, group, span_s) if evidence.is_warm(group) else []
    return found if group.run is not None or len(found) == len(group.members) else ()


def _looks(evidence: Evidence, group: RankGroup, span_s: float) -> Sequence[tuple[Member, Seen]]:
    """Return the looks at the main threads of a run; of a tracked one, also if only some of its ranks are seen."""
    if group.run is None:
        return seen_of_all(evidence, group, span_s)
    return () if learns_policy(tracked.ranks_of(group)) else _enough(evidence, group, span_s)


def _enough(evidence: Evidence, group: RankGroup, span_s: float) -> list[tuple[Member, Seen]]:
    seen_of = evidence.doings.seen
    found = [(member, seen_of(member.process, span_s)) for member in group.members if member.process is not None]
    return [(member, seen) for member, seen in found if len(seen.looks) >= LOOKS_MIN]


def name_of(member: Member) -> str:
    """Return how a finding calls a rank; it must have a process."""
    assert member.process is not None
    return f"rank {member.rank}" if member.rank is not None else f"process {member.process.pid}"
