"""The courses of what a run prints or logs besides its loss: evaluations and returns."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.rules.support import logged


class Course(NamedTuple):
    """One metric of the lowest rank: how many values, their limits, and means of neighbors, oldest first."""

    name: str
    values: int
    lowest: float
    highest: float
    means: tuple[float, ...]
    source: str


def courses(evidence: Evidence, group: RankGroup, is_wanted: Callable[[str], bool], since: int | None = None) -> list[Course]:
    """Return the wanted courses, those that the run logs first; what it only prints is known from its output.

    ``since``: leave out what comes before this step.
    """
    ranks = logged.ranks_of(group)
    if not ranks:
        return []
    rank = min(ranks, key=lambda item: item.rank)
    found: dict[str, Course] = {}
    for name in sorted(filter(is_wanted, rank.metrics)):
        series = evidence.series(logged.run_id(group), rank.rank, name)
        values = series.values if since is None else [value for step, _, value in series if step >= since]
        finite = tuple(filter(math.isfinite, values))
        if finite and len(finite) == len(values):
            found[name] = Course(name, len(finite), min(finite), max(finite), finite, f"{logged.source(group)}: {name}")
    for item in facts_of(rank).printed or () if since is None else ():
        if item.name is None or item.name in found or not is_wanted(item.name):
            continue
        if item.values and item.lowest is not None and item.highest is not None and item.means:
            means = tuple(mean for _, mean in item.means)
            found[item.name] = Course(item.name, item.values, item.lowest, item.highest, means, f"its output: {item.name}")
    return list(found.values())
