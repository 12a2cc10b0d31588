"""Pauses after which the loss starts over: the loop has chosen other data or another model there (active learning). Pure.

An evaluation between two steps leaves the loss as it was. Where the loss is higher after nearly each pause, what happens in the
pause decides what is trained next, and is part of the method.
"""

from __future__ import annotations

from gputop import units
from gputop.doctor.evidence import windows
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.rules.support import tracked
from gputop.snapshot import Rank

STEPS = 4
"""This many losses before and after a pause are averaged; fewer if the pauses are close to each other."""
JUMP = 0.2
PAUSES_MIN = 3
PAUSES_SHARE = 0.8
"""The loss must rise by this share of itself at this many pauses, and at this share of those that are known (our choice)."""


def begins_anew(evidence: Evidence, group: RankGroup, rank: Rank, pauses: windows.Stalls) -> bool:
    """Return whether the loss of a rank is higher after its pauses than before them."""
    name = tracked.loss_of((rank,))
    width = min(STEPS, int(pauses.period) // 3)
    if name is None or width < 1:
        return False
    # A pause may be counted to the step before it or to the one after it, so that one's loss is on neither side.
    befores = {step: range(step - 1 - width, step - 1) for step in pauses.steps}
    afters = {step: range(step + 1, step + 1 + width) for step in pauses.steps}
    wanted = {step for sides in (befores, afters) for steps in sides.values() for step in steps}
    losses = windows.at(evidence.series(group.run_id, rank.rank, name), wanted)
    known = jumps = 0
    for pause in pauses.steps:
        before = [losses[step] for step in befores[pause] if step in losses]
        after = [losses[step] for step in afters[pause] if step in losses]
        if before and after:
            known += 1
            jumps += units.mean(after) - units.mean(before) >= JUMP * abs(units.mean(before))
    return jumps >= PAUSES_MIN and jumps >= PAUSES_SHARE * known
