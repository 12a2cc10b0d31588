"""Ranks that train on their own and join now and then: which rank waits at the joins while another one still makes steps. Pure.

Federated averaging and local SGD join once in many steps. The wait is then a pause between two steps of one rank, and shows in
no backward pass.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from gputop.doctor.evidence import windows
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts.ddp import exchanges
from gputop.doctor.facts.stated import facts_of
from gputop.history.points import PointSeries
from gputop.snapshot import Rank

PAUSE_FACTOR = 5.0
PAUSES_MIN = 3
"""At least 3 pauses of 5 times the median step, as in rule E07."""
SHARE_MIN = 0.10
"""A wait matters from this share of the time, as for stragglers within a step."""
WORKED_SHARE = 0.7
"""The other rank works through at least this share of the paused time (our choice)."""
LONGEST_GAP_SHARE = 0.4
"""A rank works through a pause of another one if no longer share of it passes without a step (our choice). Its pace does not
matter: on a crowded machine, some steps take several times as long as the median.
"""


@dataclass(frozen=True, slots=True)
class Rounds:
    """``waiting`` pauses for ``share`` of its time, while ``working`` makes steps; and how many steps each makes in a round."""

    waiting: int
    working: int
    share: float
    pauses: int
    steps: float
    steps_of_other: float


def waits_between(evidence: Evidence, group: RankGroup) -> Rounds | None:
    """Return the rank on this machine that waits longest at joins, and for which other one; None if none waits there."""
    memo: dict[str, Rounds | None] = evidence.memo.setdefault("rounds", {})
    if group.key not in memo:
        ranks = [member.journal for member in group.members if member.journal is not None]
        pairs = itertools.permutations(ranks, 2)
        found = [rounds for pair in pairs if (rounds := _waits_for(evidence, group, *pair)) is not None]
        memo[group.key] = max(found, key=lambda rounds: (rounds.share, rounds.steps_of_other), default=None)
    return memo[group.key]


def _waits_for(evidence: Evidence, group: RankGroup, waiting: Rank, working: Rank) -> Rounds | None:
    own = windows.with_pauses(evidence, group, waiting.rank, windows.PAUSES)
    if windows.steady(own, PAUSE_FACTOR):
        return None
    found = windows.stalls(own, PAUSE_FACTOR)
    if found is None or len(found.steps) < PAUSES_MIN or found.excess_share < SHARE_MIN:
        return None
    calls = [facts_of(rank).process_group for rank in (waiting, working)]
    if any(fact is None or exchanges(fact) < PAUSES_MIN for fact in calls):
        return None  # ranks that never join do not wait for each other
    other = evidence.series(group.run_id, working.rank, "step_s")
    if len(other) < windows.STEPS_MIN or not other.finite():
        return None
    long = set(found.steps)
    ends = [point.time for point in own if point.step in long]
    pauses = [(point.time - point.value, point.time) for point in own if point.step in long]
    known = [(max(begin, other.times[0]), end) for begin, end in pauses if other.times[0] < end <= other.times[-1]]
    seen_s = sum(end - begin for begin, end in known)
    if seen_s < found.mean_s:
        return None
    worked_s = sum(end - begin for begin, end in known if _works_through(other, begin, end))
    if worked_s < WORKED_SHARE * seen_s:
        return None
    return Rounds(waiting.rank, working.rank, found.excess_share, len(ends), found.period, _per_round(other, ends))


def _works_through(points: PointSeries, begin: float, end: float) -> bool:
    """Return whether a rank makes steps all through a span of time."""
    ended = [begin, *(time for time in points.times if begin < time < end), end]
    return max(after - before for before, after in itertools.pairwise(ended)) <= LONGEST_GAP_SHARE * (end - begin)


def steps_between(points: PointSeries, begin: float, end: float) -> int:
    """Return how many steps ended in a span of time; in a sample of the steps, their numbers tell."""
    inside = [step for step, time in zip(points.steps, points.times, strict=True) if begin < time <= end]
    return inside[-1] - inside[0] + 1 if inside else 0


def _per_round(points: PointSeries, ends: Sequence[float]) -> float:
    """Return how many steps a rank makes between two joins; as far as its newest steps show it."""
    seen = [end for end in ends if points.times[0] <= end <= points.times[-1]]
    counts = [steps_between(points, begin, end) for begin, end in itertools.pairwise(seen)]
    if counts:
        return statistics.median(counts)
    pace = (points.steps[-1] - points.steps[0]) / max(points.times[-1] - points.times[0], 1e-9)
    return pace * (ends[-1] - ends[0]) / (len(ends) - 1)
