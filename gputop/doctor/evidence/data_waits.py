"""How long the ranks wait for data, where epochs begin, and whether the waits recur with the workers' period. Pure.

Uses sums, never medians: with four workers the median wait was 1.3 ms where the mean was 80 ms (docs/rules.md#measures).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from gputop import units
from gputop.doctor.evidence import windows
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts.stated import facts_of
from gputop.facts.setup import Loader
from gputop.history.points import KEPT_POINTS, PointSeries
from gputop.snapshot import AUTOMATIC_PREFIX, LIVE_STATES

WARN_SHARE = 0.15
"""Sum of waits divided by sum of step times, from which the wait matters (docs/rules.md#d01)."""
STEPS_MIN = 30
"""With fewer steps, the share says too little (our choice)."""
PREFETCH = 2
"""Batches that each worker prefetches if the loader does not say: torch's default."""
RHYTHM_MIN = 0.5
"""Measured at a lag equal to the number of workers: 0.85 to 0.92 if the workers are the bottleneck."""
RHYTHM_ROUNDS = 5
"""How many rounds of all workers the waits must cover (our choice)."""
DATA, STEP, EPOCH, FIRST = "phase/data", "step_s", "epoch", "first_batch_s"


def loader_of(group: RankGroup) -> Loader | None:
    """Return the loader's settings, as reported by the lowest rank that reports any."""
    ranks = group.run.ranks if group.run is not None else ()
    return next((found for rank in ranks if rank.state in LIVE_STATES and (found := facts_of(rank).loader) is not None), None)


def share_of_data(evidence: Evidence, group: RankGroup) -> float | None:
    """Return the share of time that the median rank waits for data (the lower median of an even number).

    If only one rank waits, it is a straggler, and the loaders in general are fine. The first batches of an epoch are left
    out: starting workers slows down the first one, and the batches prefetched meanwhile speed up the next ones. So is the
    first pass over the data once there are enough later steps: a data set may keep what it has read.
    """
    if "data_waits.share" not in evidence.memo:
        evidence.memo["data_waits.share"] = {}
    memo: dict[str, float | None] = evidence.memo["data_waits.share"]
    if group.key not in memo:
        ranks = [rank for rank in group.run.ranks if rank.state in LIVE_STATES] if group.run is not None else []
        shares = [_share(evidence, group, rank.rank, facts_of(rank).loader) for rank in ranks]
        known = sorted(value for value in shares if value is not None)
        memo[group.key] = known[(len(known) - 1) // 2] if known and len(known) == len(ranks) else None
    return memo[group.key]


def _share(evidence: Evidence, group: RankGroup, rank: int, loader: Loader | None) -> float | None:
    series = evidence.series(group.run_id, rank, DATA)
    steps = windows.newest(evidence, group, rank, STEP)
    again = second_pass(evidence, group, rank)
    if again is not None:
        later = windows.since(steps, again)
        steps = later if windows.are_enough(later, STEPS_MIN) else steps
    if not series or not windows.are_enough(steps, STEPS_MIN):
        return None
    firsts = beginnings(evidence, group, rank)
    prefetched = (loader.num_workers or 0) * (loader.prefetch_factor or PREFETCH) if loader is not None else 1
    kept = _without(steps, firsts, prefetched)
    if not windows.are_enough(kept, STEPS_MIN):
        kept = _without(steps, firsts, 1)
    total = sum(kept.values)
    if not windows.are_enough(kept, STEPS_MIN) or total <= 0:
        return None
    known = windows.since(series, steps.steps[0])
    if known.steps == kept.steps:
        waited_s = sum(known.values)
    else:
        waits = dict(zip(reversed(known.steps), reversed(known.values), strict=True))
        waited_s = sum(waits.get(step, 0.0) for step in kept.steps)
    # While the GPU still works on earlier steps, nothing waits for the data that the host fetches.
    works = windows.device_share(evidence, group, rank, kept) or 0.0
    return min(waited_s / total, max(0.0, 1 - works))


def _without(steps: PointSeries, firsts: Sequence[int], batches: int) -> PointSeries:
    if not firsts:
        return steps
    left_out = {first + place for first in firsts for place in range(min(max(1, batches), KEPT_POINTS))}
    if left_out.isdisjoint(steps.steps):
        return steps
    kept = [point for point in steps if point.step not in left_out]
    return PointSeries(*zip(*kept, strict=True)) if kept else PointSeries()


def beginnings(evidence: Evidence, group: RankGroup, rank: int) -> list[int]:
    """Return the first step of each kept epoch except the first one."""
    epochs = _epochs(evidence, group, rank)
    if not epochs or min(epochs.values) == max(epochs.values):
        return []
    return [after.step for before, after in itertools.pairwise(epochs) if after.value > before.value]


def second_pass(evidence: Evidence, group: RankGroup, rank: int) -> int | None:
    """Return the first kept step of a pass over the data that is not the first one; None if there is none yet.

    The automatic epoch counts the passes from 0 on. If the script counts them from 1 on, all steps belong to a later pass.
    """
    return next((point.step for point in _epochs(evidence, group, rank) if point.value > 0), None)


def is_first_pass(evidence: Evidence, group: RankGroup) -> bool:
    """Return whether every rank is known to be in its first pass over the data, or has made few steps since."""
    ranks = [rank.rank for rank in group.run.ranks if rank.state in LIVE_STATES] if group.run is not None else []
    return bool(ranks) and all(_is_first_pass(evidence, group, rank) for rank in ranks)


def _is_first_pass(evidence: Evidence, group: RankGroup, rank: int) -> bool:
    epochs = _epochs(evidence, group, rank)
    if not epochs or min(epochs.values) > 0:
        return False
    again = second_pass(evidence, group, rank)
    return again is None or not windows.are_enough(windows.since(windows.newest(evidence, group, rank, STEP), again), STEPS_MIN)


def _epochs(evidence: Evidence, group: RankGroup, rank: int) -> PointSeries:
    # The automatic epoch has the same steps as the automatic waits with which it is compared.
    return evidence.series(group.run_id, rank, AUTOMATIC_PREFIX + EPOCH) or evidence.series(group.run_id, rank, EPOCH)


def first_batches(evidence: Evidence, group: RankGroup, rank: int) -> tuple[list[float], float] | None:
    """Return the first-batch times of the kept epochs except the first one, and their share of the wall clock.

    None if there are fewer than two.
    """
    logged = evidence.series(group.run_id, rank, FIRST)
    if logged:
        points = list(logged)
    else:
        firsts = beginnings(evidence, group, rank)
        if len(firsts) < 3:
            return None
        waits = {point.step: point for point in evidence.series(group.run_id, rank, DATA)}
        points = [waits[step] for step in firsts if step in waits]
    if len(points) < 3:
        return None
    passed = points[-1].time - points[0].time
    values = [point.value for point in points[1:]]
    return (values, sum(values) / passed) if passed > 0 else None


def rhythm(evidence: Evidence, group: RankGroup, rank: int, workers: int) -> float | None:
    """Return the autocorrelation of the waits at a lag of ``workers`` batches; None with too few waits or workers."""
    if workers < 2:
        return None
    waits = windows.newest(evidence, group, rank, DATA).values
    if len(waits) < RHYTHM_ROUNDS * workers:
        return None
    mean = units.mean(waits)
    spread = windows.squares(waits, mean)
    if not 0 < spread < math.inf:
        return None
    return sum((a - mean) * (b - mean) for a, b in zip(waits, waits[workers:], strict=False)) / spread
