"""Ranks that train independently and synchronize now and then: which rank waits there while another still makes steps. Pure.

Federated averaging and local SGD synchronize once in many steps. The wait is then a pause between two steps of one rank, and no
backward pass shows it.
"""

from __future__ import annotations

import bisect
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
"""A rank works through another rank's pause if it never goes longer than this share of it without a step (our choice). Its pace
does not matter: on a crowded machine, some steps take several times as long as the median."""
WAITING_MAX = 8
"""How many pausing ranks are compared with all others. If every rank evaluates, all pause, and none of them waits."""


@dataclass(frozen=True, slots=True)
class Rounds:
    """``waiting`` pauses for ``share`` of its time, while ``working`` makes steps; and how many steps each makes in a round."""

    waiting: int
    working: int
    share: float
    pauses: int
    steps: float
    steps_of_other: float


@dataclass(frozen=True, slots=True)
class _Pauses:
    """The pauses of a rank between its steps, and when each began and ended, in seconds since the epoch."""

    rank: int
    stalls: windows.Stalls
    spans: tuple[tuple[float, float], ...]


def waits_between(evidence: Evidence, group: RankGroup) -> Rounds | None:
    """Return the rank on this machine that waits longest at joins, and for which other one; None if none waits there."""
    memo: dict[str, Rounds | None] = evidence.memo.setdefault("rounds", {})
    if group.key not in memo:
        memo[group.key] = _waits_between(evidence, group)
    return memo[group.key]


def _waits_between(evidence: Evidence, group: RankGroup) -> Rounds | None:
    # Ranks that never join do not wait for each other.
    ranks = [member.journal.rank for member in group.members if member.journal is not None and _joins(member.journal)]
    pausing = [each for rank in ranks if (each := _pauses(evidence, group, rank)) is not None]
    if not pausing:
        return None
    series = [(rank, evidence.series(group.run_id, rank, "step_s")) for rank in ranks]
    working = [(rank, points) for rank, points in series if len(points) >= windows.STEPS_MIN and points.finite()]
    # One that waits longest comes first, and usually waits for one that never pauses.
    pausing.sort(key=lambda each: each.stalls.excess_share, reverse=True)
    found: list[Rounds] = []
    for waiting in pausing[:WAITING_MAX]:
        if found and waiting.stalls.excess_share < found[0].share:
            break
        found += [rounds for rank, points in working if (rounds := _waits_for(waiting, rank, points)) is not None]
    return max(found, key=lambda rounds: rounds.steps_of_other, default=None)


def _joins(rank: Rank) -> bool:
    fact = facts_of(rank).process_group
    return fact is not None and exchanges(fact) >= PAUSES_MIN


def _pauses(evidence: Evidence, group: RankGroup, rank: int) -> _Pauses | None:
    """Return the pauses of a rank; None if they are few, or take little of its time."""
    own = windows.with_pauses(evidence, group, rank, windows.PAUSES)
    found = windows.stalls(own, PAUSE_FACTOR)
    if found is None or len(found.steps) < PAUSES_MIN or found.excess_share < SHARE_MIN:
        return None
    long = set(found.steps)
    return _Pauses(rank, found, tuple((point.time - point.value, point.time) for point in own if point.step in long))


def _waits_for(waiting: _Pauses, rank: int, other: PointSeries) -> Rounds | None:
    """Return how a rank waits for another one, with these steps; None if it does not."""
    if rank == waiting.rank:
        return None
    first, last = other.times[0], other.times[-1]
    known = [(max(begin, first), end) for begin, end in waiting.spans if first < end <= last]
    seen_s = sum(end - begin for begin, end in known)
    if seen_s < waiting.stalls.mean_s:
        return None
    worked_s = sum(end - begin for begin, end in known if _steps_throughout(other, begin, end))
    if worked_s < WORKED_SHARE * seen_s:
        return None
    found, ends = waiting.stalls, [end for _, end in waiting.spans]
    return Rounds(waiting.rank, rank, found.excess_share, len(ends), found.period, _per_round(other, ends))


def _steps_throughout(points: PointSeries, begin: float, end: float) -> bool:
    """Return whether a rank makes steps all through a span of time."""
    inside = points.times[bisect.bisect_right(points.times, begin) : bisect.bisect_left(points.times, end)]
    ended = [begin, *inside, end]
    return max(after - before for before, after in itertools.pairwise(ended)) <= LONGEST_GAP_SHARE * (end - begin)


def steps_between(points: PointSeries, begin: float, end: float) -> int:
    """Return how many steps ended in a span of time; if only some were kept, by their numbers."""
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
