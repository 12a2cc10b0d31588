"""Find the rank that has not entered a collective operation that the others have begun, by counts of collectives. Pure.

NCCL's own counts come from its RAS service, and torch's from the ranks themselves (the fact ``standing``). Counts normally
differ while a run is in progress; they are conclusive only once no count of the group's communicators changes
(docs/rules.md#measures).
gputop polls RAS every 5 s: three equal readings take 15 s, and one more may be in flight.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gputop.doctor.evidence import stacks
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts.stated import facts_of
from gputop.facts.standing import Standing
from gputop.snapshot import Communicator, CommunicatorRank, Rank

STILL_S = 20.0
_OF_PAIRS = ("send", "recv")
"""Point-to-point operations: their counts need not be equal."""


@dataclass(frozen=True, slots=True)
class Behind:
    """The ranks of one communicator that have begun an operation less often than the others; no count changes any more."""

    operation: str
    most: int
    ahead: tuple[CommunicatorRank, ...]
    behind: tuple[CommunicatorRank, ...]
    still_s: float
    standing: Mapping[int, Standing] = field(default_factory=dict)
    """Where the ranks report they are, if the counts are torch's."""


def behind(evidence: Evidence, group: RankGroup) -> Behind | None:
    """Return the ranks that are behind; None while a count changes, if all are equal, or if ranks are ahead crosswise."""
    found = _by_nccl(evidence, group)
    if found is not None or evidence.snapshot is None:
        return found
    return by_torch([member.journal for member in group.members if member.journal is not None], evidence.snapshot.time)


def _by_nccl(evidence: Evidence, group: RankGroup) -> Behind | None:
    found = [item for item in evidence.communicators(group) if len(item.ranks) > 1]
    still = [evidence.still.counts_s(item) for item in found]
    if not found or min(still) < STILL_S:
        return None
    for item, still_s in zip(found, still, strict=True):
        late = _late(item)
        if late is not None:
            operation, most, ahead, slow = late
            return Behind(operation, most, ahead, slow, still_s)
    return None


def _late(item: Communicator) -> tuple[str, int, tuple[CommunicatorRank, ...], tuple[CommunicatorRank, ...]] | None:
    ranks = [rank for rank in item.ranks if rank.counts]
    names = sorted({name for rank in ranks for name in rank.counts if not name.lower().startswith(_OF_PAIRS)})
    late: dict[str, set[int]] = {}
    for name in names:
        most = max(rank.counts.get(name, 0) for rank in ranks)
        slow = {rank.rank for rank in ranks if rank.counts.get(name, 0) < most}
        if slow:
            late[name] = slow
    if not late or len({frozenset(slow) for slow in late.values()}) > 1:
        return None  # crosswise: the ranks are in different operations (C08)
    name, slow = next(iter(late.items()))
    most = max(rank.counts.get(name, 0) for rank in ranks)
    ahead = tuple(rank for rank in ranks if rank.rank not in slow)
    return name, most, ahead, tuple(rank for rank in ranks if rank.rank in slow)


def by_torch(ranks: Sequence[Rank], now: float) -> Behind | None:
    """Return the ranks that are behind by torch's counts; also None if one of them evaluates, writes or compiles.

    ``now``: wall clock of the snapshot, in seconds since the epoch.
    """
    reported = {rank.rank: stands for rank in ranks if (stands := facts_of(rank).standing) is not None}
    begun = {rank: stands.begun for rank, stands in reported.items() if stands.begun is not None and stands.since is not None}
    if len(ranks) < 2 or len(begun) < len(ranks):
        return None
    most = max(begun.values())
    ahead = [rank for rank in ranks if begun[rank.rank] == most]
    slow = [rank for rank in ranks if begun[rank.rank] < most]
    still_s = now - max(stands.since for stands in reported.values() if stands.since is not None)
    if not slow or still_s < STILL_S or not all(_waits(reported[rank.rank]) for rank in ahead):
        return None
    if any(stacks.pauses(reported[rank.rank]) or stacks.compiles(reported[rank.rank]) for rank in slow):
        return None
    operations = Counter(reported[rank.rank].operation or _UNNAMED[reported[rank.rank].phase == "backward"] for rank in ahead)
    return Behind(operations.most_common(1)[0][0], most, _counted(ahead), _counted(slow), still_s, reported)


_UNNAMED = ("a collective operation", "the exchange of gradients")


def _waits(stands: Standing) -> bool:
    pending = stands.begun is not None and stands.completed is not None and stands.begun > stands.completed
    return stands.operation is not None or stands.phase == "backward" or pending


def _counted(ranks: Sequence[Rank]) -> tuple[CommunicatorRank, ...]:
    return tuple(CommunicatorRank(rank.rank, rank.pid, rank.hostname) for rank in ranks)
