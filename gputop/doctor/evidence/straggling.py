"""Find the rank that the others wait for. The wait shows in the backward pass, so the culprit has the shortest one. Pure.

Ranks that average gradients by hand wait between the backward pass and the step: there, the culprit has the shortest rest of
the step, and its backward pass is a part that may be longer. DDP sends rank 0's buffers, such as those of BatchNorm, before
each forward pass: if rank 0 is late, the others wait there, and no longer in the backward pass.

On a GPU, the host only queues work: its times of forward and backward say when, and it waits where it reads a value. Where the
ranks report times by CUDA events, of one step in about half a second, those count instead.

In DDP every rank's step takes equally long. Measured (docs/rules.md#measures): 50 ms of data on rank 1 give rank 0 a
backward of 60.7 ms and rank 1 one of 10.5 ms, both in steps of 63 ms. The score is the victim's wait as a share of its
step.
"""

from __future__ import annotations

import math
import statistics
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from gputop import units
from gputop.doctor.evidence import windows
from gputop.doctor.evidence.evidence import WARM_UP_STEPS, Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts.ddp import called
from gputop.history.points import PointSeries

WINDOW_STEPS = 20
WINDOWS = 3
SCORE_MIN = 0.10
COVERAGE_MIN = 0.8
"""Score, windows and coverage are those of TraceML (docs/rules.md#measures)."""
FOLLOWS_MIN = 0.6
"""Rank correlation above which the work explains the forward time (our choice)."""
WORK_RATIO_MIN = 1.15
"""Maximum over mean of the ranks' work in a step (docs/rules.md#f03)."""
CONSTANT_SHARE = 0.8
"""From this share of the steps with a wait, one rank counts as the culprit."""
FEW_WINDOW_STEPS, FIRST_STEPS, CONSTANT_SHARE_OF_FEW = 5, 3, 0.9
"""Windows may be this short if all their steps take ``windows.FEW_SPAN_S`` together. The first steps of a run, when much starts
up, do not count. Then one rank must be late more constantly, and the finding is only possible (our choice)."""
TURNS_SHARE = 0.7
"""Up to this share no single rank is the culprit (with two ranks, chance gives one of them more than half)."""
DATA, FORWARD, BACKWARD, OPTIMIZER = "phase/data", "phase/forward", "phase/backward", "phase/optimizer"
REST = "rest"
"""The part of a step outside all phases."""
Meets = Literal["backward", "after backward", "forward"]
"""The part of a step in which the ranks wait for each other."""
_Times = Mapping[int, Mapping[int, float]]
"""Rank -> step -> seconds."""


@dataclass(frozen=True, slots=True)
class Clock:
    """The metrics of a step and its parts by one clock, and in how many steps a wait must show."""

    step: str
    backward: str
    parts: Mapping[str, str]
    """Part -> metric."""
    window_steps: int


HOST = Clock("step_s", "phase/backward", {name: name for name in (DATA, FORWARD, OPTIMIZER)}, WINDOW_STEPS)
GPU = Clock(windows.DEVICE_STEP, "cuda/backward_s", {FORWARD: "cuda/forward_s", OPTIMIZER: "cuda/optimizer_s"}, 5)
"""Three windows of 5 are about as long as those on the host: two steps a second are timed."""


def clock_of(evidence: Evidence, group: RankGroup, ranks: Sequence[int]) -> Clock:
    """Return by which clock the steps of these ranks are known: that of their GPUs, if each reports it."""
    timed = all(evidence.series(group.run_id, rank, name) for rank in ranks for name in (GPU.step, GPU.backward))
    return GPU if timed else HOST


@dataclass(frozen=True, slots=True)
class Straggling:
    """Ranks wait for another one. ``culprit`` is None if it is a different rank at every step.

    ``score``: mean wait over step time. ``excess_s``: how much longer each part of the culprit's step is than the others'
    (medians), in seconds; ``gap_s``: the difference in the part in which they wait, which these parts must explain.
    """

    culprit: int | None
    score: float
    steps: int
    gap_s: float
    step_s: float
    excess_s: Mapping[str, float]
    clock: Clock = HOST
    meets: Meets = "backward"
    """Where the others wait."""

    @property
    def metric(self) -> str:
        """The metric that contains the wait, unless that is after the backward pass."""
        return self.clock.parts[FORWARD] if self.meets == "forward" else self.clock.backward

    @property
    def is_of_few(self) -> bool:
        """Whether it was seen in fewer steps than usual, which took long."""
        return self.steps < WINDOWS * self.clock.window_steps

    def explained_by(self, part: str) -> float:
        """Return the share of the gap that a part explains."""
        return self.excess_s.get(part, 0.0) / self.gap_s if self.gap_s > 0 else 0.0


def straggling(evidence: Evidence, group: RankGroup, ranks: Sequence[int], meets: Meets = "backward") -> Straggling | None:
    """Return which rank the others wait for over the newest 60 common steps; None if there is none, or too little is known."""
    memo: dict[tuple[str | None, tuple[int, ...], Meets], Straggling | None] = evidence.memo.setdefault("straggling", {})
    key = (group.run_id, tuple(ranks), meets)
    if key not in memo:
        memo[key] = _straggling(evidence, group, ranks, meets)
    return memo[key]


def _straggling(evidence: Evidence, group: RankGroup, ranks: Sequence[int], meets: Meets) -> Straggling | None:
    clock = clock_of(evidence, group, ranks)
    metric = clock.parts[FORWARD] if meets == "forward" else clock.backward
    if len(ranks) < 2 or (clock is HOST and meets != "after backward" and _no_rank_waits(evidence, group, ranks, metric)):
        return None
    number = 2 * WINDOWS * WINDOW_STEPS
    backward = {rank: windows.latest(evidence.series(group.run_id, rank, clock.backward), number) for rank in ranks}
    exchange: _Times = backward
    if meets == "forward":
        exchange = {rank: windows.latest(evidence.series(group.run_id, rank, metric), number) for rank in ranks}
    looked_at = set.intersection(*map(set, backward.values()), *map(set, exchange.values()))
    whole = {rank: windows.at(evidence.series(group.run_id, rank, clock.step), looked_at) for rank in ranks}
    common = sorted(looked_at.intersection(*whole.values()))
    size = clock.window_steps
    steps = [step for step in common if step >= WARM_UP_STEPS][-WINDOWS * size :]
    few = len(steps) < WINDOWS * size
    if few:
        steps, size = _few_long(common, whole)
        if not steps:
            return None
    if meets == "after backward":
        exchange = _rest(steps, whole, {**_known_parts(evidence, group, ranks, clock, steps), BACKWARD: backward})
    waits: list[float] = []
    for at in reversed(range(0, len(steps), size)):
        # Check the newest window first: in most runs, no rank waits, and one window is enough to tell.
        piece = _waits(exchange, whole, steps[at : at + size])
        if piece is None or units.mean(piece) < SCORE_MIN:
            return None
        waits = piece + waits
    slowest = [min((exchange[rank][step], rank) for rank in ranks)[1] for step in steps]
    counted = Counter(rank for rank, wait in zip(slowest, waits, strict=True) if wait >= SCORE_MIN / 2)
    if not counted:
        return None
    most, times = counted.most_common(1)[0]
    share = times / counted.total()
    if (TURNS_SHARE < share < CONSTANT_SHARE) or (few and share < CONSTANT_SHARE_OF_FEW):
        return None
    culprit = most if share >= CONSTANT_SHARE else None
    at_fault = {step: rank if culprit is None else culprit for step, rank in zip(steps, slowest, strict=True)}
    return Straggling(
        culprit,
        units.mean(waits),
        len(steps),
        _excess(exchange, at_fault, ranks, sign=-1.0),
        units.mean([statistics.median(whole[rank][step] for rank in ranks) for step in steps]),
        _excess_of_parts(evidence, group, ranks, clock, at_fault, whole, backward, meets),
        clock,
        meets,
    )


def _few_long(common: Sequence[int], whole: _Times) -> tuple[list[int], int]:
    """Return the newest of few long steps, and how many of them are a window; none if they take too little time together."""
    later = common[FIRST_STEPS:]
    size = min(WINDOW_STEPS, len(later) // WINDOWS)
    steps = list(later[len(later) - WINDOWS * size :])
    took = sum(max(times[step] for times in whole.values()) for step in steps)
    return (steps, size) if size >= FEW_WINDOW_STEPS and took >= windows.FEW_SPAN_S else ([], 0)


def _no_rank_waits(evidence: Evidence, group: RankGroup, ranks: Sequence[int], metric: str) -> bool:
    """Return whether the newest window alone rules out waiting, without a table of all windows, as in most runs."""
    exchange = [evidence.series(group.run_id, rank, metric)[-WINDOW_STEPS:] for rank in ranks]
    steps = exchange[0].steps
    if len(steps) < WINDOW_STEPS or steps != array("q", sorted(set(steps))) or steps[0] < WARM_UP_STEPS:
        return False
    whole = [_points_at(evidence.series(group.run_id, rank, HOST.step), steps) for rank in ranks]
    if any(series.steps != steps or not series.finite() for series in (*exchange, *whole)):
        return False
    waited = 0.0
    columns = zip(
        zip(*(series.values for series in exchange), strict=True), zip(*(s.values for s in whole), strict=True), strict=True
    )
    for values, times in columns:
        took = _median(sorted(times))
        if took <= 0:
            return False
        waited += (sorted(values)[len(values) // 2] - min(values)) / took
    return waited / WINDOW_STEPS < SCORE_MIN


def _points_at(points: PointSeries, steps: Sequence[int]) -> PointSeries:
    """Return the kept points at these steps; if they are the newest, this is only a slice."""
    newest = points[-len(steps) :]
    if newest.steps == steps:
        return newest
    known = windows.at(points, set(steps))
    return PointSeries(list(known), [0.0] * len(known), list(known.values()))


def _median(times: Sequence[float]) -> float:
    """Return the median of sorted values (``statistics.median`` takes ten times as long)."""
    middle = len(times) // 2
    return times[middle] if len(times) % 2 else (times[middle - 1] + times[middle]) / 2


def _waits(
    exchange: Mapping[int, Mapping[int, float]], whole: Mapping[int, Mapping[int, float]], steps: Sequence[int]
) -> list[float] | None:
    """Return the victim's wait at each step as a share of the step; None if a time is not finite."""
    waits = []
    for step in steps:
        values = sorted([series[step] for series in exchange.values()])
        took = _median(sorted([series[step] for series in whole.values()]))
        if took <= 0 or not math.isfinite(took) or not math.isfinite(values[-1]):
            return None
        waits.append((values[len(values) // 2] - values[0]) / took)
    return waits


def _excess(series: Mapping[int, Mapping[int, float]], at_fault: Mapping[int, int], ranks: Sequence[int], sign: float) -> float:
    """Return the mean over the steps of how much more the culprit has than the others; ``sign`` -1: how much less."""
    found = []
    for step, guilty in at_fault.items():
        others = [series[rank].get(step, 0.0) for rank in ranks if rank != guilty]
        found.append(sign * (series[guilty].get(step, 0.0) - statistics.median(others)))
    return units.mean(found)


def _known_parts(
    evidence: Evidence, group: RankGroup, ranks: Sequence[int], clock: Clock, steps: Collection[int]
) -> dict[str, _Times]:
    return {
        part: {rank: windows.at(evidence.series(group.run_id, rank, name), steps) for rank in ranks}
        for part, name in clock.parts.items()
    }


def _rest(steps: Iterable[int], whole: _Times, parts: Mapping[str, _Times]) -> dict[int, dict[int, float]]:
    """Return what of each rank's steps is outside these parts, in seconds."""
    kept = tuple(steps)
    return {
        rank: {step: times[step] - sum(part[rank].get(step, 0.0) for part in parts.values()) for step in kept}
        for rank, times in whole.items()
    }


def _excess_of_parts(
    evidence: Evidence,
    group: RankGroup,
    ranks: Sequence[int],
    clock: Clock,
    at_fault: Mapping[int, int],
    whole: _Times,
    backward: _Times,
    meets: Meets,
) -> dict[str, float]:
    """Return how much longer each part of the culprit's step is, without the one in which the others wait."""
    parts = _known_parts(evidence, group, ranks, clock, at_fault.keys())
    if meets == "after backward":
        return {name: _excess(series, at_fault, ranks, 1.0) for name, series in {**parts, BACKWARD: backward}.items()}
    rest = _rest(at_fault, whole, {**parts, BACKWARD: backward})
    if clock is GPU:
        # A host that waits for data longer than others delays its GPU, but only while that has nothing to do.
        waited = {rank: _usual(evidence, group, rank, DATA) for rank in ranks}
        waited = {rank: seconds - min(waited.values()) for rank, seconds in waited.items()}
        parts[DATA] = {rank: {step: min(waited[rank], max(0.0, each[step])) for step in each} for rank, each in rest.items()}
        rest = {rank: {step: each[step] - parts[DATA][rank][step] for step in each} for rank, each in rest.items()}
    if meets == "forward":
        parts = {**{name: series for name, series in parts.items() if name != FORWARD}, BACKWARD: backward}
    found = {name: _excess(series, at_fault, ranks, 1.0) for name, series in parts.items()}
    return {**found, REST: _excess(rest, at_fault, ranks, 1.0)}


def _usual(evidence: Evidence, group: RankGroup, rank: int, name: str) -> float:
    """Return the mean time of a part in the host's newest steps; a step without it counts as 0."""
    steps = evidence.series(group.run_id, rank, HOST.step)[-WINDOWS * WINDOW_STEPS :]
    known = windows.at(evidence.series(group.run_id, rank, name), set(steps.steps))
    return sum(known.values()) / len(steps) if len(steps) else 0.0


@dataclass(frozen=True, slots=True)
class Work:
    """How unequal the ranks' work is: maximum over mean, averaged over ``steps`` common steps. ``source``: who reports it.

    ``measured``: from what the model was called with, rather than from what a loader delivered. ``heaviest``: the rank that has
    clearly more than the mean of all, over these steps together; None if no rank has.
    """

    ratio: float
    unit: str
    steps: int
    source: str
    measured: bool
    heaviest: int | None = None

    @property
    def unequal(self) -> bool:
        """Whether that explains why some ranks wait."""
        return self.ratio >= WORK_RATIO_MIN


def work(evidence: Evidence, group: RankGroup, ranks: Sequence[int]) -> Work | None:
    """Return how unequal the ranks' work is; None if it is known for too few steps.

    Prefers what the model was called with: what a loader delivers may be cut or packed before the call.
    """
    return _called(group, ranks) or _loaded(evidence, group, ranks)


def _called(group: RankGroup, ranks: Sequence[int]) -> Work | None:
    journals = group.run.ranks if group.run is not None else ()
    said = [called(rank) for rank in journals if rank.rank in ranks]
    if len(said) != len(ranks) or not said:
        return None
    steps = set(said[0]).intersection(*said[1:])
    sizes = [[each[step] for each in said] for step in steps]
    if len(steps) < WINDOW_STEPS:
        # Ranks may report different steps, for example after each stage of a training. Sizes that never change hold for all.
        if any(len(each) < WINDOW_STEPS or len(set(each.values())) > 1 for each in said):
            return None
        sizes = [[next(iter(each.values())) for each in said]]
    rows = [[float(rows) for rows, _ in step] for step in sizes]
    elements = [[float(elements) for _, elements in step] for step in sizes]
    # With equal rows, longer sequences or larger images mean more work.
    amounts, unit = (rows, "rows") if _ratio(rows) >= _ratio(elements) else (elements, "elements")
    heaviest = _heaviest([rank.rank for rank in journals if rank.rank in ranks], amounts)
    number = len(steps) if len(steps) >= WINDOW_STEPS else min(map(len, said))
    return Work(_ratio(amounts), unit, number, "journal: batches (what the model was called with)", True, heaviest)


def cost_of(work: Work, evidence: Evidence, group: RankGroup, ranks: Sequence[int]) -> tuple[float, float, int] | None:
    """Return the cost of unequal work if each rank's forward time follows its work, though little waiting is visible.

    The result is (share of the step that the average rank waits, rank correlation of work and forward time, number of
    single-rank steps); None if that is unknown. In the backward pass, which contains the wait, the longer work of the others
    and the wait for it cancel out.
    """
    journals = [rank for rank in (group.run.ranks if group.run is not None else ()) if rank.rank in ranks]
    if clock_of(evidence, group, ranks) is GPU:
        return None  # its times arrive a few steps later, with the number of that step
    pairs: list[tuple[int, float]] = []
    shares: list[float] = []
    for rank in journals:
        sizes = called(rank)
        forward, backward, whole = (
            windows.at(evidence.series(group.run_id, rank.rank, name), sizes) for name in (FORWARD, HOST.backward, HOST.step)
        )
        for step in sorted(set(sizes) & set(forward) & set(backward) & set(whole)):
            pairs.append((sizes[step][1], forward[step]))
            if whole[step] > 0:
                shares.append((forward[step] + backward[step]) / whole[step])
    if len(pairs) < WINDOW_STEPS * len(ranks) or not shares or not math.isfinite(units.mean(shares)):
        return None
    return (1 - 1 / work.ratio) * min(1.0, units.mean(shares)), _rank_correlation(pairs), len(pairs)


def _rank_correlation(pairs: Sequence[tuple[float, float]]) -> float:
    """Return Spearman's coefficient, which limits the weight of a single long step to its rank order."""
    places = []
    for column in (0, 1):
        order = sorted(range(len(pairs)), key=lambda at: pairs[at][column])
        places.append(dict(zip(order, range(len(pairs)), strict=True)))
    apart = sum((places[0][at] - places[1][at]) ** 2 for at in range(len(pairs)))
    return 1 - 6 * apart / (len(pairs) * (len(pairs) ** 2 - 1))


def _loaded(evidence: Evidence, group: RankGroup, ranks: Sequence[int]) -> Work | None:
    for name, unit in (("tokens_per_s", "tokens"), ("samples_per_s", "samples")):
        rates = {rank: windows.latest(evidence.series(group.run_id, rank, name), 2 * WINDOW_STEPS) for rank in ranks}
        paces = {rank: evidence.series(group.run_id, rank, "pace_s") for rank in ranks}
        # On a GPU, throughput goes by the pace; the host's time of a single step says nothing about it.
        by = {rank: paces[rank] or evidence.series(group.run_id, rank, HOST.step) for rank in ranks}
        took = {rank: windows.at(by[rank], rates[rank]) for rank in ranks}
        steps = set.intersection(*(set(rates[rank]) & set(took[rank]) for rank in ranks))
        if len(steps) >= WINDOW_STEPS:
            amounts = [[rates[rank][step] * took[rank][step] for rank in ranks] for step in steps]
            return Work(_ratio(amounts), unit, len(steps), f"journal: {name}, step_s", False, _heaviest(ranks, amounts))
    return None


def _ratio(amounts: Sequence[Sequence[float]]) -> float:
    """Return the mean over steps of maximum over mean."""
    means = [units.mean(step) for step in amounts]
    return units.mean([max(step) / mean if mean > 0 else 1.0 for step, mean in zip(amounts, means, strict=True)])


def _heaviest(ranks: Sequence[int], amounts: Sequence[Sequence[float]]) -> int | None:
    """Return the rank with clearly more work than the mean of all; ``amounts``: of each step, those of the ranks in order."""
    sums = [sum(column) for column in zip(*amounts, strict=True)]
    return ranks[sums.index(max(sums))] if max(sums) >= WORK_RATIO_MIN * units.mean(sums) > 0 else None
