"""Find the rank that has not entered a collective operation that the others have begun, by NCCL's own counts. Pure.

Counts normally differ while a job runs; they are conclusive only once none of the job's communicators moves
(docs/rules.md#measures). gputop polls RAS every 5 s: three equal readings take 15 s, and one more is on its way.
"""

from __future__ import annotations

from dataclasses import dataclass

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.jobs import Job
from gputop.snapshot import Communicator, CommunicatorRank

STILL_S = 20.0
_OF_PAIRS = ("send", "recv")
"""Point-to-point operations: their counts need not be equal."""


@dataclass(frozen=True, slots=True)
class Behind:
    """The ranks of one communicator that have begun an operation less often than the others and no longer move."""

    operation: str
    most: int
    ahead: tuple[CommunicatorRank, ...]
    behind: tuple[CommunicatorRank, ...]
    still_s: float


def behind(evidence: Evidence, job: Job) -> Behind | None:
    """Return the ranks that are behind; None while a count moves, if all are equal, or if ranks are ahead crosswise."""
    found = [item for item in evidence.communicators(job) if len(item.ranks) > 1]
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
