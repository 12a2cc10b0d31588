"""A loss of an agent, or of one of several models, that grows beyond all others: its target moves, but not so far (part of
J02). Pure.
"""

from __future__ import annotations

import math
import statistics

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.losses import is_of_evaluation, names_a_loss

TIMES = 1e4
"""The median of the newest quarter is this many times that of the first (our choice): a value function's loss grows with the
square of the returns, which seldom reach a hundred times their first."""
VALUES_MIN = 12
"""The fewest values (our choice)."""
BLOWN_UP, BEYOND, BEYOND_ALL = 1e9, 1e9, 1e15
"""Or the newest is this many times the first and beyond the second number, or beyond the third whatever came before (our
choice)."""
WRITTEN_OUT = 1e6
"""From this many times on, they are written as a power of ten."""


def explodes(evidence: Evidence, group: RankGroup) -> Judgement:
    """J02: any loss that a run logs has grown by orders of magnitude, and stays there."""
    ranks = logged.ranks_of(group)
    if not ranks:
        return None
    rank = min(ranks, key=lambda item: item.rank)
    for name in sorted(rank.metrics):
        if "loss" not in name.lower() or "scale" in name.lower() or is_of_evaluation(name):
            continue
        values = [abs(value) for value in evidence.series(logged.run_id(group), rank.rank, name).values if math.isfinite(value)]
        quarter = len(values) // 4
        if len(values) < VALUES_MIN:
            continue
        first, now = statistics.median(values[:quarter]), statistics.median(values[-quarter:])
        if not 0 < first * TIMES <= now or min(values[-quarter:]) < first:
            continue
        return Suspicion(
            tracked.about(
                group,
                "J02",
                "error",
                "likely",
                f"{name} has grown to {units.metric(now)}, {times_text(now / first)} times what it was at first",
                [
                    Fact(f"the median of its first {quarter} values is {units.metric(first)}", first, logged.source(group)),
                    Fact(f"that of the newest {quarter} is {units.metric(now)}", now, logged.source(group)),
                ],
                "The steps overshoot, or what the model learns from has no bounds: returns that are not normalized, a reward "
                "with an error, a target that follows the model too quickly.",
                "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # before optimizer.step()\n"
                "# normalize observations, rewards and returns; a lower learning rate for the critic",
                "The metric is not a loss, or it is a sum over more and more steps.",
            ),
            5.0,
        )
    return None


def blows_up(evidence: Evidence, group: RankGroup) -> Judgement:
    """J02: the newest value of any training loss is beyond all measure, however few there are."""
    ranks = logged.ranks_of(group)
    if not ranks or not logged.is_printed(group):
        return None
    rank = min(ranks, key=lambda item: item.rank)
    for name in sorted(filter(names_a_loss, rank.metrics)):
        values = evidence.series(logged.run_id(group), rank.rank, name).values
        if not values or not math.isfinite(values[-1]) or abs(values[-1]) < BEYOND:
            continue
        now, first = abs(values[-1]), abs(values[0])
        if now < BEYOND_ALL and not (math.isfinite(first) and now >= BLOWN_UP * max(first, 1.0)):
            continue
        where = f"{logged.source(group)}: {name}"
        before = [Fact(f"the first of {len(values)} is {units.metric(values[0])}", values[0], where)] if len(values) > 1 else []
        return Suspicion(
            tracked.about(
                group,
                "J02",
                "error",
                "likely" if len(values) > 1 and abs(values[-2]) >= TIMES * max(first, 1.0) else "possible",
                f"{name} has grown beyond all measure: {units.metric(values[-1])}",
                [Fact(f"{name} is {units.metric(values[-1])}", values[-1], where), *before],
                "The steps overshoot, each further than the one before: the learning rate is far too high, or a value has no "
                "bounds. What the model had learned is lost.",
                "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # before optimizer.step()\n"
                "# start again, or continue from a checkpoint before it, with a lower learning rate and a warm-up",
                "It is a sum over very many large numbers, and no mean.",
            ),
            5.0,
        )
    return None


def times_text(times: float) -> str:
    """Return how many times as large something is, for a title."""
    if times >= WRITTEN_OUT:
        return units.metric(times)
    return f"{times:.1f}" if times < 100 else units.count(times)
