"""Which rank the others wait for: the wait shows in backward, so that the culprit is the rank with the shortest one. Pure.

In DDP every rank's step takes equally long. Measured (docs/rules.md#measures): 50 ms of data on rank 1 give rank 0 a backward
of 60.7 ms and rank 1 one of 10.5 ms, both in steps of 63 ms. The score is what the victim waits, as a share of its step.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gputop import units
from gputop.doctor.evidence import windows
from gputop.doctor.evidence.evidence import WARM_UP_STEPS, Evidence
from gputop.doctor.evidence.jobs import Job
from gputop.doctor.evidence.series import Series
from gputop.doctor.facts.ddp import called

WINDOW_STEPS = 20
WINDOWS = 3
SCORE_MIN = 0.10
COVERAGE_MIN = 0.8
"""Score, windows and coverage are those of TraceML (docs/rules.md#measures)."""
FOLLOWS_MIN = 0.6
"""Rank correlation from which forward takes as long as the work says (ours)."""
WORK_RATIO_MIN = 1.15
"""Most over mean of the ranks' work in a step (docs/rules.md#f03)."""
CONSTANT_SHARE = 0.8
"""Of the steps in which somebody is waited for: from here it is always the same rank."""
TURNS_SHARE = 0.7
"""Up to here no rank is the one that is waited for (with two ranks, chance gives one of them more than half)."""
PARTS = ("phase/data", "phase/forward", "phase/optimizer")
BACKWARD = "phase/backward"
STEP = "step_s"
REST = "rest"
"""What of a step is in none of the phases."""


@dataclass(frozen=True, slots=True)
class Straggling:
    """Somebody is waited for. ``culprit`` is None where it is another rank at every step.

    ``score``: mean wait over step time. ``excess_s``: by how much each part of the culprit's step is longer than the others'
    (medians), seconds; ``gap_s``: the difference in backward that they have to explain.
    """

    culprit: int | None
    score: float
    steps: int
    gap_s: float
    step_s: float
    excess_s: Mapping[str, float]

    def explained_by(self, part: str) -> float:
        """Return which share of the gap a part explains."""
        return self.excess_s.get(part, 0.0) / self.gap_s if self.gap_s > 0 else 0.0


def straggling(evidence: Evidence, job: Job, ranks: Sequence[int]) -> Straggling | None:
    """Return whom the ranks wait for over the newest 60 common steps; None when nobody is, or too little is known."""
    memo: dict[tuple[str | None, tuple[int, ...]], Straggling | None] = evidence.memo.setdefault("straggling", {})
    key = (job.run_id, tuple(ranks))
    if key not in memo:
        memo[key] = _straggling(evidence, job, ranks)
    return memo[key]


def _straggling(evidence: Evidence, job: Job, ranks: Sequence[int]) -> Straggling | None:
    if len(ranks) < 2 or _nobody_waits(evidence, job, ranks):
        return None
    number = 2 * WINDOWS * WINDOW_STEPS
    backward = {rank: windows.latest(evidence.series(job.run_id, rank, BACKWARD), number) for rank in ranks}
    looked_at = set.intersection(*map(set, backward.values()))
    whole = {rank: windows.at(evidence.series(job.run_id, rank, STEP), looked_at) for rank in ranks}
    common = looked_at.intersection(*whole.values())
    steps = sorted(step for step in common if step >= WARM_UP_STEPS)[-WINDOWS * WINDOW_STEPS :]
    if len(steps) < WINDOWS * WINDOW_STEPS:
        return None
    waits: list[float] = []
    for at in reversed(range(0, len(steps), WINDOW_STEPS)):
        # The newest window first: nobody waits in most runs, and then one window tells it.
        piece = _waits(backward, whole, steps[at : at + WINDOW_STEPS])
        if piece is None or units.mean(piece) < SCORE_MIN:
            return None
        waits = piece + waits
    slowest = [min((backward[rank][step], rank) for rank in ranks)[1] for step in steps]
    counted = Counter(rank for rank, wait in zip(slowest, waits, strict=True) if wait >= SCORE_MIN / 2)
    if not counted:
        return None
    most, times = counted.most_common(1)[0]
    share = times / counted.total()
    if TURNS_SHARE < share < CONSTANT_SHARE:
        return None
    culprit = most if share >= CONSTANT_SHARE else None
    at_fault = {step: rank if culprit is None else culprit for step, rank in zip(steps, slowest, strict=True)}
    return Straggling(
        culprit,
        units.mean(waits),
        len(steps),
        _excess(backward, at_fault, ranks, sign=-1.0),
        units.mean([statistics.median(whole[rank][step] for rank in ranks) for step in steps]),
        _parts(evidence, job, ranks, at_fault, whole, backward),
    )


def _nobody_waits(evidence: Evidence, job: Job, ranks: Sequence[int]) -> bool:
    """Return whether the newest window alone tells it, without a table of all windows: so it is in most runs."""
    backward = [evidence.series(job.run_id, rank, BACKWARD)[-WINDOW_STEPS:] for rank in ranks]
    steps = backward[0].steps
    if len(steps) < WINDOW_STEPS or steps != sorted(set(steps)) or steps[0] < WARM_UP_STEPS:
        return False
    whole = [_at(evidence.series(job.run_id, rank, STEP), steps) for rank in ranks]
    if any(series.steps != steps or not series.finite() for series in (*backward, *whole)):
        return False
    waited = 0.0
    columns = zip(
        zip(*(series.values for series in backward), strict=True), zip(*(s.values for s in whole), strict=True), strict=True
    )
    for values, times in columns:
        took = _middle(sorted(times))
        if took <= 0:
            return False
        waited += (sorted(values)[len(values) // 2] - min(values)) / took
    return waited / WINDOW_STEPS < SCORE_MIN


def _at(points: Series, steps: Sequence[int]) -> Series:
    """Return the points at these steps, as far as they are kept; where they are the newest, at the cost of a slice."""
    newest = points[-len(steps) :]
    if newest.steps == steps:
        return newest
    known = windows.at(points, set(steps))
    return Series(list(known), [0.0] * len(known), list(known.values()))


def _middle(times: Sequence[float]) -> float:
    """Return the median of sorted values (``statistics.median`` takes ten times as long)."""
    middle = len(times) // 2
    return times[middle] if len(times) % 2 else (times[middle - 1] + times[middle]) / 2


def _waits(
    backward: Mapping[int, Mapping[int, float]], whole: Mapping[int, Mapping[int, float]], steps: Sequence[int]
) -> list[float] | None:
    """Return for each step how long the victim waits, as a share of the step; None where a time is not finite."""
    waits = []
    for step in steps:
        values = sorted([series[step] for series in backward.values()])
        took = _middle(sorted([series[step] for series in whole.values()]))
        if took <= 0 or not math.isfinite(took) or not math.isfinite(values[-1]):
            return None
        waits.append((values[len(values) // 2] - values[0]) / took)
    return waits


def _excess(series: Mapping[int, Mapping[int, float]], at_fault: Mapping[int, int], ranks: Sequence[int], sign: float) -> float:
    """Return the mean over the steps of how much more the rank at fault has than the others; ``sign`` -1: how much less."""
    found = []
    for step, guilty in at_fault.items():
        others = [series[rank].get(step, 0.0) for rank in ranks if rank != guilty]
        found.append(sign * (series[guilty].get(step, 0.0) - statistics.median(others)))
    return units.mean(found)


def _parts(
    evidence: Evidence,
    job: Job,
    ranks: Sequence[int],
    at_fault: Mapping[int, int],
    whole: Mapping[int, Mapping[int, float]],
    backward: Mapping[int, Mapping[int, float]],
) -> dict[str, float]:
    parts = {name: {rank: windows.at(evidence.series(job.run_id, rank, name), at_fault) for rank in ranks} for name in PARTS}
    rest: dict[int, dict[int, float]] = {}
    for rank in ranks:
        rest[rank] = {
            step: whole[rank][step] - backward[rank][step] - sum(parts[name][rank].get(step, 0.0) for name in PARTS)
            for step in at_fault
        }
    found = {name: _excess(series, at_fault, ranks, 1.0) for name, series in parts.items()}
    return {**found, REST: _excess(rest, at_fault, ranks, 1.0)}


@dataclass(frozen=True, slots=True)
class Work:
    """How unequal the ranks' work is: the mean over ``steps`` common steps of most over mean. ``source``: who says so.

    ``measured``: it is what the model was called with, and not what a loader handed out.
    """

    ratio: float
    unit: str
    steps: int
    source: str
    measured: bool

    @property
    def unequal(self) -> bool:
        """Whether that explains why some wait."""
        return self.ratio >= WORK_RATIO_MIN


def work(evidence: Evidence, job: Job, ranks: Sequence[int]) -> Work | None:
    """Return how unequal the ranks' work is; None where it is not known of enough steps.

    By what the model was called with, where that is known: what a loader handed out may be cut, or packed, before.
    """
    return _called(job, ranks) or _loaded(evidence, job, ranks)


def _called(job: Job, ranks: Sequence[int]) -> Work | None:
    journals = job.run.ranks if job.run is not None else ()
    said = [called(rank) for rank in journals if rank.rank in ranks]
    steps = set(said[0]).intersection(*said[1:]) if said and len(said) == len(ranks) else set()
    if len(steps) < WINDOW_STEPS:
        return None
    rows = _ratio([[sizes[step][0] for sizes in said] for step in steps])
    elements = _ratio([[sizes[step][1] for sizes in said] for step in steps])
    # Of equal rows, those with longer sequences or larger pictures are more work.
    ratio, unit = (rows, "rows") if rows >= elements else (elements, "elements")
    return Work(ratio, unit, len(steps), "journal: batches (what the model was called with)", True)


def lost_to(work: Work, evidence: Evidence, job: Job, ranks: Sequence[int]) -> tuple[float, float, int] | None:
    """Return what unequal work costs where each rank's forward takes as long as its work says, though little waiting is seen.

    (share of the step that the mean rank waits, rank correlation of work and forward, over how many steps of single ranks);
    None where that cannot be said. In backward, which holds the waiting, the longer work of others and the wait for it cancel.
    """
    journals = [rank for rank in (job.run.ranks if job.run is not None else ()) if rank.rank in ranks]
    pairs: list[tuple[int, float]] = []
    shares: list[float] = []
    for rank in journals:
        sizes = called(rank)
        forward, backward, whole = (
            windows.at(evidence.series(job.run_id, rank.rank, name), sizes) for name in ("phase/forward", BACKWARD, STEP)
        )
        for step in sorted(set(sizes) & set(forward) & set(backward) & set(whole)):
            pairs.append((sizes[step][1], forward[step]))
            if whole[step] > 0:
                shares.append((forward[step] + backward[step]) / whole[step])
    if len(pairs) < WINDOW_STEPS * len(ranks) or not shares or not math.isfinite(units.mean(shares)):
        return None
    return (1 - 1 / work.ratio) * min(1.0, units.mean(shares)), _rank_correlation(pairs), len(pairs)


def _rank_correlation(pairs: Sequence[tuple[float, float]]) -> float:
    """Return Spearman's coefficient: one long step does not count for more than its place."""
    places = []
    for column in (0, 1):
        order = sorted(range(len(pairs)), key=lambda at: pairs[at][column])
        places.append(dict(zip(order, range(len(pairs)), strict=True)))
    apart = sum((places[0][at] - places[1][at]) ** 2 for at in range(len(pairs)))
    return 1 - 6 * apart / (len(pairs) * (len(pairs) ** 2 - 1))


def _loaded(evidence: Evidence, job: Job, ranks: Sequence[int]) -> Work | None:
    for name, unit in (("tokens_per_s", "tokens"), ("samples_per_s", "samples")):
        rates = {rank: windows.latest(evidence.series(job.run_id, rank, name), 2 * WINDOW_STEPS) for rank in ranks}
        took = {rank: windows.at(evidence.series(job.run_id, rank, STEP), rates[rank]) for rank in ranks}
        steps = set.intersection(*(set(rates[rank]) & set(took[rank]) for rank in ranks))
        if len(steps) >= WINDOW_STEPS:
            ratio = _ratio([[rates[rank][step] * took[rank][step] for rank in ranks] for step in steps])
            return Work(ratio, unit, len(steps), f"journal: {name}, step_s", False)
    return None


def _ratio(amounts: Sequence[Sequence[float]]) -> float:
    """Return the mean over steps of most over mean."""
    means = [units.mean(step) for step in amounts]
    return units.mean([max(step) / mean if mean > 0 else 1.0 for step, mean in zip(amounts, means, strict=True)])
