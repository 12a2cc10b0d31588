"""Parallelism written by hand, without a wrapper, mesh or group that shows it. Where it is found, equal batches (C05) and
differing weights (C03) are intended. Pure.
"""

from __future__ import annotations

from gputop.doctor.evidence import windows
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts.calls import wrapped_by
from gputop.doctor.facts.ddp import exchanges, weights_differ
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.rules.support import tracked
from gputop.snapshot import Rank

STEPS_MIN = 5
EQUAL_LOSSES_MIN = 2
"""Steps over which calls are counted, and steps with the same loss, to the last digit, from different weights (our choice)."""
_PASSES_ON = ("send", "recv", "all_to_all")
"""Ranks that hand activations to one another: pipeline, expert and context parallelism."""
_STEPS_LOOKED_AT = 40
"""How many of the newest losses of each rank are compared: twice as many as common steps are needed."""


def divides_by_hand(evidence: Evidence, group: RankGroup) -> bool:
    """Return whether the ranks share one model: they pass values on, or get the same loss from different weights."""
    ranks = tracked.ranks_of(group)
    if any(_passes_on(rank) for rank in ranks):
        return True
    probe = weights_differ(ranks)
    name = tracked.loss_of(ranks)
    return (
        probe is not None and probe[1] and name is not None and equal_losses(evidence, group, ranks, name) >= EQUAL_LOSSES_MIN
    )


def may_divide(group: RankGroup) -> bool:
    """Return whether unwrapped ranks, whose weights are unknown, exchange more than the gradients of one backward pass."""
    ranks = tracked.ranks_of(group)
    if any(wrapped_by(rank) is not None for rank in ranks) or weights_differ(ranks) is not None:
        return False
    known = [(facts_of(rank).process_group, rank.steps_taken or 0) for rank in ranks]
    return all(fact is not None and exchanges(fact) >= 2 * steps > 0 for fact, steps in known)


def equal_losses(evidence: Evidence, group: RankGroup, ranks: tuple[Rank, ...], name: str) -> int:
    """Return the number of newest steps, up to 20, in which the losses of all ranks are equal; 0 if they differ in one."""
    series = [windows.latest(evidence.series(group.run_id, rank.rank, name), _STEPS_LOOKED_AT) for rank in ranks]
    common = sorted(set(series[0]).intersection(*series[1:]))[-20:]
    return len(common) if common and all(len({values[step] for values in series}) == 1 for step in common) else 0


def _passes_on(rank: Rank) -> bool:
    fact, steps = facts_of(rank).process_group, rank.steps_taken or 0
    if fact is None or steps < STEPS_MIN:
        return False
    return sum(count for name, count in fact.collectives.items() if any(part in name for part in _PASSES_ON)) >= steps
