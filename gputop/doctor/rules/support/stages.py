"""Steps that do more and more on purpose: what a rank reports of its work explains why they take longer (for E10)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import logged
from gputop.facts.measured import Change
from gputop.levels import Stretch
from gputop.losses import names_a_stage
from gputop.snapshot import Rank

MORE = 1.15
"""Work that has grown by less than this factor explains nothing; as for rows per second."""
EXPLAINED = 0.25
"""If at most this share of the growth is between steps of equal work, the work explains it (our choice)."""
NOT_EXPLAINED = 0.6
"""From this share on, the run slows down, whatever its work (our choice)."""
KNOWN_MIN = 0.3
"""Stages must cover this share of the course, or the growth within them says nothing (our choice)."""
STAGES_TEXT = (
    "not if steps take longer only where they train more parameters, or as much longer as their inputs are larger; possible "
    "if that is unknown"
)

Explains = Literal["all", "maybe", "nothing"]


class Grown(NamedTuple):
    """What steps do now and did at first, and whether that explains why they take longer."""

    explains: Explains
    facts: list[Fact]


def grown_work(rank: Rank, stretches: Sequence[Stretch], growth: float) -> Grown:
    """Return whether the work of a step explains that steps take ``growth`` times as long; ``stretches``: of their times."""
    workload = facts_of(rank).workload
    changes = tuple(workload.changes) if workload is not None else ()
    parameters = _ratio([change.parameters for change in changes])
    elements = _ratio([change.elements for change in changes])
    if max(parameters, elements) < MORE:
        return Grown("nothing", [])
    source = "journal: workload"
    facts = [
        Fact(f"{what} of a step {now} at step {units.count(changes[-1].by)}, {before} at first", value, source)
        for what, ratio, before, now, value in (
            ("trained parameters", parameters, *_texts([item.parameters for item in changes])),
            ("elements of the inputs", elements, *_texts([item.elements for item in changes])),
        )
        if ratio >= MORE
    ]
    if elements * MORE >= growth:
        return Grown("all", facts)
    share = _share_within(changes, stretches, growth)
    if share is None:
        return Grown("maybe", facts)
    return Grown("all" if share <= EXPLAINED else "nothing" if share >= NOT_EXPLAINED else "maybe", facts)


def states_more_work(evidence: Evidence, group: RankGroup, rank: Rank, stretches: Sequence[Stretch], growth: float) -> bool:
    """Return whether the run states stages that rise, and its steps take ``growth`` times as long from one to the next, and
    hardly within one; ``stretches``: of their times."""
    for name in filter(names_a_stage, sorted(rank.metrics)):
        stated = evidence.series(logged.run_id(group), rank.rank, name)
        changes, last = list[Change](), math.nan
        for before, at, value in zip((-1, *stated.steps), stated.steps, stated.values, strict=False):
            if value != last:
                changes.append(Change(before, at, None, None))
                if value < last:
                    break
                last = value
        else:
            share = _share_within(changes, stretches, growth) if len(changes) > 1 else None
            if share is not None and share <= EXPLAINED:
                return True
    return False


def _ratio(values: Sequence[int | None]) -> float:
    """Return the last known value over the first."""
    known = [value for value in values if value]
    return known[-1] / known[0] if known else 1.0


def _texts(values: Sequence[int | None]) -> tuple[str, str, int]:
    known = [value for value in values if value] or [0]
    return units.metric(known[0]), units.metric(known[-1]), known[-1]


def _share_within(changes: Sequence[Change], stretches: Sequence[Stretch], growth: float) -> float | None:
    """Return which share of the growth, in logarithms, is between steps of equal work; None if too few of them are known."""
    begins = [stretch.step for stretch in stretches]
    lasts = [*(begin - 1 for begin in begins[1:]), *(begins[-1:])]
    ends = [*(change.after for change in changes[1:]), math.inf]
    drift, known = 0.0, 0
    for change, end in zip(changes, ends, strict=True):
        inside = [stretch for stretch, last in zip(stretches, lasts, strict=True) if stretch.step >= change.by and last <= end]
        if len(inside) < 2:
            continue
        half = len(inside) // 2
        before, after = (_mean(inside[:half]), _mean(inside[-half:]))
        if before <= 0 or after <= 0:
            return None
        # The middles of the two halves are half of the stage apart.
        drift += 2 * math.log(after / before)
        known += len(inside)
    covered = known / len(stretches) if stretches else 0.0
    return drift / covered / math.log(growth) if covered >= KNOWN_MIN else None


def _mean(stretches: Sequence[Stretch]) -> float:
    return sum(item.mean * item.count for item in stretches) / sum(item.count for item in stretches)
