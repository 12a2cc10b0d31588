"""The part of a step that passes outside of its phases. Pure."""

from __future__ import annotations

from gputop.doctor.evidence import windows
from gputop.doctor.evidence.data_waits import DATA, STEP, STEPS_MIN
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.snapshot import Rank

FIRST_STEPS = 3
"""Of few steps, the first ones are left out, in which much begins (our choice)."""
PHASES = (DATA, "phase/forward", "phase/backward", "phase/optimizer", "phase/evaluation", "checkpoint_s")


def share_outside(evidence: Evidence, group: RankGroup, rank: Rank) -> tuple[float, float] | None:
    """Return the share and the seconds of a typical step outside of all phases; None if too few steps are known."""
    # Only a few of many quick steps are recorded completely, and only those count.
    whole = evidence.series(group.run_id, rank.rank, "phase/backward")[-5 * STEPS_MIN :].steps
    if len(whole) < STEPS_MIN:
        whole = whole[FIRST_STEPS:]
    steps = windows.at(evidence.series(group.run_id, rank.rank, STEP), set(whole))
    total = sum(steps.values())
    if len(steps) < STEPS_MIN and (len(steps) < windows.FEW_STEPS or total < windows.FEW_SPAN_S):
        return None
    known = sum(sum(windows.at(evidence.series(group.run_id, rank.rank, name), steps).values()) for name in PHASES)
    rest = total - known
    return (rest / total, rest / len(steps)) if total > 0 and rest == rest else None
