"""Statistics over the newest values of a rank's metrics: shares by sums, medians, trends, stalls. Pure.

Shares use sums, never medians: with four workers the median wait for data was 1.3 ms where the mean was 80 ms
(docs/rules.md#measures). The history at the start of a stream is decimated to its extremes, so only the newest stretch of
closely spaced steps counts.
"""

from __future__ import annotations

import itertools
import math
import operator
import statistics
from array import array
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from gputop import units
from gputop.doctor.evidence.evidence import WARM_UP_STEPS, Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.history.points import EMPTY, KEPT_POINTS, Point, PointSeries
from gputop.snapshot import Rank

STEPS = 200
STEPS_MIN = 20
"""How many of the newest steps the statistics use, and how many they need (our choice)."""
FEW_STEPS, FEW_SPAN_S = 10, 20.0
"""This few steps are enough if together they take this long (our choice): large models, and crowded machines."""
PAUSES = ("phase/evaluation", "checkpoint_s")
"""Metrics of what a loop does between steps."""
DEVICE_STEP = "cuda/step_s"
DEVICE_PARTS = ("cuda/forward_s", "cuda/backward_s", "cuda/optimizer_s")
"""Times on the GPU, by CUDA events around single steps. The host only queues a GPU's work: without a wait in each step it runs
ahead, its own times say when work was queued, and it waits for the GPU where it reads a value, such as the loss to log."""
TIMED_MIN = 3
TIMED = 50
"""Of the newest timed steps, the median counts (our choice): other work on the GPU lengthens some of them."""
GAP_MAX = 3
"""Steps are closely spaced if none is farther from the next than this many usual distances."""
POWER_SPAN_MIN_S = 30.0
"""A mean of utilization or power over less than this is only a first sign."""
CHAIN_MIN = 5
CHAIN_SHARE = 0.75
"""From ``CHAIN_MIN`` stalls on, a quarter of them may be outside the rhythm of the others (our choice)."""


class Stalls(NamedTuple):
    """Recurring long steps: which steps, their period in steps (0 for one stall), the share of time that they add, the median
    of all steps and the mean of the long ones."""

    steps: tuple[int, ...]
    period: float
    excess_share: float
    median_s: float
    mean_s: float


def newest(evidence: Evidence, group: RankGroup, rank: int, metric: str, limit: int = STEPS) -> PointSeries:
    """Return the newest closely spaced values, oldest first, without those of the warm-up."""
    memo: dict[tuple[str | None, int, str, int], PointSeries] = evidence.memo.setdefault("windows.newest", {})
    key = (group.run_id, rank, metric, limit)
    if key not in memo:
        memo[key] = _newest(evidence, group, rank, metric, limit)
    return memo[key]


def _newest(evidence: Evidence, group: RankGroup, rank: int, metric: str, limit: int) -> PointSeries:
    found = evidence.series(group.run_id, rank, metric)[-limit:]
    if found and min(found.steps) < WARM_UP_STEPS:
        # Of long steps, the warm-up takes fewer: it is over after some time, too.
        over = found.times[0] + FEW_SPAN_S
        found = _series_of([point for point in found if point.step >= WARM_UP_STEPS or point.time > over])
    if _consecutive(found.steps):
        return found
    distances = list(map(operator.sub, found.steps[1:], found.steps))
    usual = min((distance for distance in distances[-STEPS_MIN:] if distance > 0), default=1)
    # A step stretched by an evaluation or a checkpoint has no step time: a gap of one or two steps is not decimation.
    widest = GAP_MAX * usual
    if min(distances) > 0 and max(distances) <= widest:
        return found
    return found[max(at for at, distance in enumerate(distances, 1) if not 0 < distance <= widest) :]


def _consecutive(steps: array[int]) -> bool:
    """Return whether the steps are consecutive; compares without a Python loop."""
    return not steps or (steps[-1] - steps[0] == len(steps) - 1 and steps == array("q", range(steps[0], steps[-1] + 1)))


def _series_of(points: Sequence[Point]) -> PointSeries:
    return PointSeries(*zip(*points, strict=True)) if points else PointSeries()


def are_enough(steps: PointSeries, number: int) -> bool:
    """Return whether steps, by their times, are ``number`` or more, or fewer that take long."""
    return len(steps) >= number or (len(steps) >= FEW_STEPS and steps.total() >= FEW_SPAN_S)


def share(evidence: Evidence, group: RankGroup, rank: int, part: str | Sequence[str]) -> float | None:
    """Return a phase's share of the step time in one rank, by sums over the newest steps; None if unknown."""
    steps = newest(evidence, group, rank, "step_s")
    total = steps.total()
    if len(steps) < STEPS_MIN or total <= 0:
        return None
    begin = steps.steps[0]
    names = (part,) if isinstance(part, str) else part
    series = [evidence.series(group.run_id, rank, name) for name in names]
    if not any(series):
        return None
    return sum(since(points, begin).total() for points in series) / total


def since(points: PointSeries, step: int) -> PointSeries:
    """Return the newest points from ``step`` on; the cost depends only on these points."""
    number = points.steps[-1] - step + 1 if points else 0
    if 0 < number < len(points) and points.steps[-number - 1] < step and _consecutive(points.steps[-number:]):
        return points[-number:]
    number = next((at for at, known in enumerate(reversed(points.steps)) if known < step), len(points))
    return points[len(points) - number :]


def latest(points: PointSeries, number: int) -> dict[int, float]:
    """Return the newest values by step, newest first."""
    return dict(zip(points.steps[: -number - 1 : -1], points.values[: -number - 1 : -1], strict=True))


def at(points: PointSeries, wanted: Collection[int]) -> dict[int, float]:
    """Return the kept values at these steps; only a few of many quick iterations are fully recorded, so only a few are read."""
    recent = since(points, min(wanted)) if wanted else EMPTY
    return {step: value for step, value in zip(recent.steps, recent.values, strict=True) if step in wanted}


def squares(values: Iterable[float], middle: float) -> float:
    """Return the sum of squared distances from ``middle``; infinite on overflow (``**`` would raise)."""
    return sum([(value - middle) * (value - middle) for value in values])


def spread(values: Sequence[float]) -> float:
    """Return the population standard deviation (``statistics.pstdev`` takes fifty times as long)."""
    return math.sqrt(squares(values, units.mean(values)) / len(values))


def data_share(evidence: Evidence, group: RankGroup) -> float | None:
    """Return the median over the ranks of the share of time spent waiting for data."""
    shares = [share(evidence, group, rank.rank, "phase/data") for rank in _ranks(group)]
    known = [value for value in shares if value is not None]
    return statistics.median(known) if known else None


def pause_share(evidence: Evidence, group: RankGroup) -> float:
    """Return the highest share of time that a rank spends on evaluation and checkpoints; 0 if unknown."""
    shares = [share(evidence, group, rank.rank, PAUSES) for rank in _ranks(group)]
    return max((value for value in shares if value is not None), default=0.0)


def step_s(evidence: Evidence, group: RankGroup, rank: int, least: int = STEPS_MIN) -> float | None:
    """Return the mean time of a rank's newest steps, in seconds."""
    steps = newest(evidence, group, rank, "step_s")
    return steps.total() / len(steps) if are_enough(steps, least) else None


def median_step_s(evidence: Evidence, group: RankGroup) -> float | None:
    """Return the median step time over the newest steps of all ranks, in seconds."""
    memo: dict[str, tuple[int, float]] = evidence.memo.setdefault("windows.median_step_s", {})
    if group.key not in memo:
        values = [value for rank in _ranks(group) for value in newest(evidence, group, rank.rank, "step_s").values]
        if not math.isfinite(sum(values)):
            values = [value for value in values if math.isfinite(value)]
        memo[group.key] = len(values), statistics.median(values or [0.0])
    number, median = memo[group.key]
    return median if number >= STEPS_MIN else None


def device_share(
    evidence: Evidence, group: RankGroup, rank: int, steps: PointSeries, parts: Sequence[str] = DEVICE_PARTS
) -> float | None:
    """Return the time of these parts of a step on the GPU as a share of the host's mean over ``steps``.

    None if too few steps were timed. The GPU works at least this much: parts that are not known are left out. With
    ``DEVICE_STEP`` as the only part, gaps are included, and from 1 on the GPU is never done before the host is.
    """
    mean_s = units.mean(steps.values) if steps else 0.0
    timed = [evidence.series(group.run_id, rank, name)[-TIMED:].values for name in parts]
    known = [statistics.median(values) for values in timed if len(values) >= TIMED_MIN]
    return sum(known) / mean_s if known and mean_s > 0 else None


def wall_share(evidence: Evidence, group: RankGroup, rank: int, metric: str, span_min_s: float) -> float | None:
    """Return the share of the wall clock that a metric in seconds sums up to, over the kept steps."""
    steps = evidence.series(group.run_id, rank, "step_s")
    points = evidence.series(group.run_id, rank, metric)
    if not steps or not points:
        return None
    begin, end = steps.times[0], max(steps.times[-1], points.times[-1])
    # The kept steps may span less time if steps are quick, but there are enough of them for any share.
    if end - begin < span_min_s and len(steps) < KEPT_POINTS:
        return None
    spent = sum(value for time, value in zip(points.times, points.values, strict=True) if time > begin and math.isfinite(value))
    return min(1.0, spent / (end - begin))


def with_pauses(evidence: Evidence, group: RankGroup, rank: int, metrics: Sequence[str]) -> PointSeries:
    """Return the newest steps, with the time of pauses added to the steps they stretched.

    Such steps have no ``step_s`` of their own.
    """
    steps = newest(evidence, group, rank, "step_s", KEPT_POINTS)
    if len(steps) < STEPS_MIN:
        return PointSeries()
    pauses = [since(evidence.series(group.run_id, rank, metric), steps.steps[0]) for metric in metrics]
    if not any(pauses):
        return steps
    usual = statistics.median(steps.values)
    timed = {point.step: point for point in steps}
    stretched: dict[int, Point] = {}
    for points in pauses:
        for point in reversed(points):
            known, before = timed.get(point.step), timed.get(point.step - 1)
            later = _after_a_pause(timed, point, usual)
            if later is not None:
                stretched[later.step] = later
                continue
            if known is not None and known.value >= point.value:
                continue
            # The pause's own time covers only the model's calls: the clock gives the total time of the step.
            passed = point.time - before.time if before is not None and known is None else 0.0
            took = point.value + (known.value if known is not None else usual)
            timed[point.step] = Point(point.step, point.time, max(took, passed))
    timed |= stretched
    return _series_of([timed[step] for step in sorted(timed)])


def _after_a_pause(timed: Mapping[int, Point], pause: Point, usual: float) -> Point | None:
    """Return the step after a pause between two steps, if it has no time of its own; None if it has one, or if it is unknown.

    The clock gives its time, with what follows the pause in the same gap: the upload of what was saved.
    """
    before, after = timed.get(pause.step), timed.get(pause.step + 2)
    if before is None or after is None or pause.step + 1 in timed:
        return None
    passed = after.time - after.value - before.time
    return Point(pause.step + 1, after.time - after.value, max(pause.value + usual, passed))


def steady(points: PointSeries, factor: float) -> bool:
    """Return whether no value is ``factor`` times another, so that no part of the values has a stall."""
    return not points or (points.finite() and max(points.values) <= factor * min(points.values))


def stalls(points: PointSeries, factor: float) -> Stalls | None:
    """Return the steps that take over ``factor`` times the median, with their period; None if there are none."""
    values = points.values if points.finite() else [value for value in points.values if math.isfinite(value)]
    # The median is at least the minimum: most runs return here.
    if len(values) < STEPS_MIN or max(values) <= factor * min(values):
        return None
    median = statistics.median(values)
    long = [point for point in points if point.value > factor * median and math.isfinite(point.value)]
    if not long or median <= 0:
        return None
    gaps = [after.step - before.step for before, after in itertools.pairwise(long)]
    excess = sum(point.value - median for point in long) / sum(values)
    usual = units.mean([point.value for point in long])
    return Stalls(tuple(point.step for point in long), statistics.median(gaps) if gaps else 0.0, excess, median, usual)


def seconds_of(rates: PointSeries) -> PointSeries:
    """Return the seconds of each step by its rate (in 1/s), but the first, which compiles and warms up."""
    seconds = [1.0 / value if value > 0 else math.nan for value in rates.values]
    return PointSeries(rates.steps[1:], rates.times[1:], seconds[1:])


def regular(steps: Sequence[int], variation: float) -> bool:
    """Return whether the distances between steps vary by less than this share of their mean.

    A few outliers are tolerated: a test every 20 steps, and another one at the end of each epoch.
    """
    gaps = [after - before for before, after in itertools.pairwise(steps)]
    if len(gaps) < 2:
        return False
    usual = units.mean(gaps)
    if usual > 0 and spread(gaps) / usual < variation:
        return True
    period = statistics.median(gaps)
    return len(steps) >= CHAIN_MIN and _chain(steps, period, variation * period) >= CHAIN_SHARE * len(steps)


def _chain(steps: Sequence[int], period: float, off: float) -> int:
    """Return the length of the longest chain of steps at this distance, skipping others in between."""
    lengths: list[int] = []
    for at, step in enumerate(steps):
        before = [lengths[n] for n in range(at) if abs(step - steps[n] - period) <= off]
        lengths.append(1 + max(before, default=0))
    return max(lengths, default=0)


def finite(points: PointSeries) -> PointSeries:
    """Return the points whose value is finite."""
    return points if points.finite() else _series_of([point for point in points if math.isfinite(point.value)])


def trend(points: PointSeries) -> tuple[float, float] | None:
    """Return (growth over the window, R²) of a straight line through the values; None with too few values."""
    known = finite(points)
    steps, values = known.steps, known.values
    if len(known) < STEPS_MIN or steps[-1] <= steps[0]:
        return None
    if min(values) == max(values):
        return 0.0, 0.0
    mean_x, mean_y = sum(steps) / len(steps), units.mean(values)
    off_x, off_y = [step - mean_x for step in steps], [value - mean_y for value in values]
    spread_x, spread_y = sum(map(operator.mul, off_x, off_x)), sum(map(operator.mul, off_y, off_y))
    if spread_y <= 0:
        return 0.0, 0.0
    slope = sum(map(operator.mul, off_x, off_y)) / spread_x
    growth, fit = slope * (steps[-1] - steps[0]), slope * slope * spread_x / spread_y
    return (growth, fit) if math.isfinite(growth + fit) else None


def mean_utilization(evidence: Evidence, uuid: str) -> float | None:
    """Return a device's mean utilization over the last minute; None before 10 s were observed, and ``early`` before 30 s."""
    mean = evidence.history.mean(uuid, "utilization_percent")
    return mean if mean is not None and evidence.spans(uuid, POWER_SPAN_MIN_S) else None


def power_share_at_most(evidence: Evidence, uuid: str) -> float | None:
    """Return an upper bound on the active power fraction: mean power over the limit in the last minute; ``early`` before 30 s.

    The device's idle power is unknown; as long as it is below the limit, the fraction without it is lower.
    """
    device = evidence.device(uuid)
    mean_w = evidence.history.mean(uuid, "power_w")
    if device is None or not device.power_limit_w or mean_w is None or not evidence.spans(uuid, POWER_SPAN_MIN_S):
        return None
    return mean_w / device.power_limit_w


def _ranks(group: RankGroup) -> Iterable[Rank]:
    return [member.journal for member in group.members if member.journal is not None]
