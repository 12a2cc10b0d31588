"""A loss that diverges in a run with few reports, where averages say nothing yet (part of J02). Pure."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Mapping, Sequence

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.learning.by_epochs import only_gets_worse
from gputop.doctor.rules.learning.exploding import times_text
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.losses import is_of_evaluation
from gputop.snapshot import Rank

REPORTS_MAX = 80
"""With more losses, their averages are judged (our choice)."""
JUMPED, JUMP, REPORTS_MIN = 10.0, 5.0, 4
"""This many of the newest losses are ``JUMPED`` times the first, since one that is ``JUMP`` times the one before (our choice):
a sum over more and more steps grows bit by bit."""
BEFORE_MIN, BEFORE_MOST, FALLS_AGAIN = 3, 3.0, 0.7
"""This many losses come before the jump, all of them below this many times the first; and the last one is not below this share
of the highest, as a loss that recovers is (our choice)."""
BOTH = 20.0
"""The newest loss of training and that of evaluation are both this many times their first, and their lowest (our choice)."""
HUGE, HUGE_NORM, HUGE_MIN, HARDLY_LESS = 1e6, 1e5, 12, 0.9
"""Or this many losses, and the norms of their gradients, are all above these; the norms of the second half are no smaller than
those of the first, and its losses not below this share (our choice)."""
_NORM = re.compile(r"(?i)(?:^|[/_.])(?:grad\w*norm|gnorm|norm_?grad\w*)$")
_RATE = re.compile(r"(?i)(?:^|[/_.])(?:lr|learning_?rate)(?:[/_.-]|$)")
RATE_GROWN = 10.0
"""A learning rate that has grown to this many times the first is tried out, or warms up (our choice)."""
_SIZE = re.compile(r"(?i)seq|len|size|resol|token|context|crop|frame|items|points|nodes")
SIZE_GROWN = 1.5
"""A loss that is a sum grows with the size of the samples: to this many times the first (our choice)."""


def diverges(evidence: Evidence, group: RankGroup, rank: Rank, name: str) -> Judgement:
    """J02, of few losses: they have jumped and stay up, with those of the evaluation too, or are huge and do not fall."""
    columns = {metric: _finite(evidence.series(logged.run_id(group), rank.rank, metric).values) for metric in rank.metrics}
    losses = columns.get(name, [])
    if not losses or len(losses) > REPORTS_MAX or min(losses) <= 0 or _tries_out(columns, name):
        return None
    series = evidence.series(logged.run_id(group), rank.rank, name)
    found = (
        _jumped(losses)
        or _both(losses, columns)
        or _huge(losses, columns)
        or only_gets_worse(evidence, group, rank, name, series)
    )
    if found is None:
        return None
    title, fact = found
    where = f"{logged.source(group)}: {name}"
    return Suspicion(
        tracked.about(
            group,
            "J02",
            "warning",
            "possible",
            title,
            [
                Fact(fact, losses[-1], where),
                Fact(f"the first of {len(losses)} losses is {units.metric(losses[0])}", losses[0], where),
            ],
            "The steps overshoot: the learning rate is too high at this point of the run, or the gradients of a few batches "
            "are far larger than usual. Or the targets are not normalized.",
            "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # before optimizer.step()\n"
            "# continue from a checkpoint before it, with a lower learning rate or a longer warm-up",
            "The loss is a sum over more than before, its target moves, or it comes back in the next reports.",
        ),
        10.0,
    )


def _finite(values: Sequence[float]) -> list[float]:
    return [value for value in values if math.isfinite(value)]


def _tries_out(columns: Mapping[str, Sequence[float]], loss: str) -> bool:
    """Return whether the run logs a rate that has grown by far, or a size of its samples that has grown."""
    for name, values in columns.items():
        if name == loss or len(values) < 2 or values[0] <= 0:
            continue
        times = values[-1] / values[0]
        if (_RATE.search(name) and times >= RATE_GROWN) or (_SIZE.search(name) and times >= SIZE_GROWN):
            return True
    return False


def _jumped(losses: Sequence[float]) -> tuple[str, str] | None:
    up = len(losses)
    while up > 0 and losses[up - 1] >= JUMPED * losses[0]:
        up -= 1
    high, before = losses[up:], losses[:up]
    if len(high) < REPORTS_MIN or len(before) < BEFORE_MIN or max(before) >= BEFORE_MOST * losses[0]:
        return None
    if high[0] < JUMP * before[-1] or high[-1] < FALLS_AGAIN * max(high):
        return None
    lowest = min(before)
    now, least, last = (units.metric(value) for value in (high[-1], min(high), before[-1]))
    title = f"The loss has jumped to {now}, {times_text(high[-1] / lowest)} times its lowest, and stays there"
    return title, f"the newest {len(high)} losses are {least} or more, and the one before was {last}"


def _both(losses: Sequence[float], columns: Mapping[str, Sequence[float]]) -> tuple[str, str] | None:
    evaluated = next((values for name, values in columns.items() if "loss" in name.lower() and is_of_evaluation(name)), None)
    if evaluated is None:
        return None
    for values in (losses, evaluated):
        if len(values) < BEFORE_MIN or min(values) <= 0 or values[-1] < BOTH * values[0]:
            return None
        if max(values[:-1]) >= BOTH * values[0]:
            return None  # it has jumped before
    now = units.metric(losses[-1])
    title = f"The loss has grown to {now}, {times_text(losses[-1] / min(losses))} times its lowest"
    return title, f"the newest loss is {now}, and that of the evaluation {units.metric(evaluated[-1])}"


def _huge(losses: Sequence[float], columns: Mapping[str, Sequence[float]]) -> tuple[str, str] | None:
    norms = next((values for name, values in columns.items() if _NORM.search(name)), [])
    if min(len(losses), len(norms)) < HUGE_MIN or min(losses) < HUGE or min(norms) < HUGE_NORM:
        return None
    if _change(norms) < 1.0 or _change(losses) < HARDLY_LESS:
        return None
    title = f"The loss is {units.metric(losses[-1])} with gradients of norm {units.metric(norms[-1])}, and does not fall"
    return title, f"all {len(losses)} losses are above {units.metric(HUGE)}, and all norms above {units.metric(HUGE_NORM)}"


def _change(values: Sequence[float]) -> float:
    """Return how many times the median of the first half that of the second is."""
    half = len(values) // 2
    return statistics.median(values[half:]) / statistics.median(values[:half])
