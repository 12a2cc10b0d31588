"""Losses that jump because the task becomes harder on purpose, as in a curriculum: they fall within each level (for J02)."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left
from collections.abc import Sequence
from itertools import pairwise

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.rules.support import logged
from gputop.history.points import PointSeries
from gputop.losses import names_a_stage
from gputop.snapshot import Rank

WIDTH = 4
"""This many losses on each side of a jump are averaged: a single batch may be unusual."""
JUMP = 1.3
"""A loss that jumps is this many times what it was (our choice)."""
JUMPS_MIN = 2
FALLS = 0.85
"""Within a level, the loss falls to this share of what it is at the level's beginning (our choice)."""
FALLS_SHARE = 0.8
"""It does so in this share of the levels (our choice)."""
STAGE_VALUES = 2
"""A stage is stated this many times on average, or more (our choice)."""
GROWN_WITHIN = 0.5
"""If this share of the growth, in logarithms, is within stages, the loss grows whatever the stage (our choice)."""
GROWN_IN_NEWEST = 3.0
"""Nor is it the stage if the loss is this many times the lowest of the newest one (as for the whole run)."""


def gets_harder(evidence: Evidence, group: RankGroup, rank: Rank, series: PointSeries) -> bool:
    """Return whether the run names the stages of a curriculum, or its loss behaves as in one.

    Args:
        evidence: what was observed.
        group: the ranks of the run.
        rank: the one whose loss is judged.
        series: its newest losses.
    """
    return _grows_between_stages(evidence, group, rank, series) or _falls_in_each_level(series.values)


def _grows_between_stages(evidence: Evidence, group: RankGroup, rank: Rank, series: PointSeries) -> bool:
    """Return whether the run states a stage that has risen, and the loss has grown from one to the next, and not within."""
    for name in filter(names_a_stage, sorted(rank.metrics)):
        stages = evidence.series(logged.run_id(group), rank.rank, name)
        if len(stages) < 2 or stages.values[-1] <= stages.values[0]:
            continue
        if any(after < before for before, after in pairwise(stages.values)):
            continue  # phases that take turns are no curriculum
        begins = [0, *(at for at in range(1, len(stages)) if stages.values[at] > stages.values[at - 1])]
        if len(stages) < STAGE_VALUES * len(begins):
            continue  # it counts something
        places = [bisect_left(series.steps, stages.steps[at]) for at in begins]
        courses = [_means(series.values[begin:end]) for begin, end in pairwise((*places, len(series)))]
        courses = [course for course in courses if course]
        if len(courses) < 2:
            continue
        lowest = min(range(len(courses)), key=lambda at: min(courses[at]))
        courses = courses[lowest:]
        courses[0] = courses[0][courses[0].index(min(courses[0])) :]
        growth = math.log(courses[-1][-1] / courses[0][0])
        within = sum(math.log(course[-1] / course[0]) for course in courses)
        newest = courses[-1]
        if within <= GROWN_WITHIN * growth and newest[-1] < GROWN_IN_NEWEST * min(newest):
            return True
    return False


def _falls_in_each_level(values: Sequence[float]) -> bool:
    """Return whether the loss has jumped several times, has fallen for long before nearly each, and does not grow since
    the last."""
    begins = _jumps(values)
    if len(begins) < JUMPS_MIN:
        return False
    *levels, newest = (values[begin:end] for begin, end in pairwise((0, *begins, len(values))))
    long = [level for level in levels if len(level) >= 2 * WIDTH]
    falls = sum(units.mean(level[-WIDTH:]) <= FALLS * _begin(level) for level in long)
    still = units.mean(newest[-WIDTH:]) <= JUMP * _begin(newest)
    return still and len(long) >= JUMPS_MIN and falls >= FALLS_SHARE * len(long)


def _begin(level: Sequence[float]) -> float:
    """Return the loss with which a level begins, without the highest value: a jump is found where losses are high."""
    return statistics.median(level[: WIDTH + 1])


def _jumps(values: Sequence[float]) -> list[int]:
    """Return the places at which the loss jumps and stays up: no value after a jump is as low as those before it."""
    found: list[int] = []
    at = WIDTH
    while at + WIDTH <= len(values):
        before, after = values[at - WIDTH : at], values[at : at + WIDTH]
        mean = units.mean(before)
        if mean > 0 and units.mean(after) >= JUMP * mean and min(after) > max(before):
            found.append(at)
            at += WIDTH
        at += 1
    return found


def _means(values: Sequence[float]) -> list[float]:
    """Return the means of neighboring losses above 0; a remainder that is too short counts to none."""
    known = [value for value in values if 0 < value < math.inf]
    width = max(1, min(WIDTH, len(known)))
    return [units.mean(known[at : at + width]) for at in range(0, len(known) - width + 1, width)]
