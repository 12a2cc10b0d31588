"""What a run shows within a few epochs, each with one mean of its losses: that it only gets worse, or that nothing changes
(parts of J02 and J03). Pure.

A mean over a whole epoch is far steadier than a loss of some steps, so fewer of them tell.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import groupby, pairwise

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.rules.learning.evaluating.courses import Course, courses
from gputop.doctor.rules.learning.evaluating.evaluations import is_a_training_score, is_score
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.history.points import PointSeries
from gputop.snapshot import Rank

WORSE_MIN, WORSE, WORSE_NOW = 8, 1.02, 1.04
"""In at least this many epochs after the first, the loss was never below the second number times the first epoch's, and in the
second half of them it was on average the third number times it (our choice)."""
STEPS_WORSE_MIN, STEPS_WORSE, SEEN_SHARE = 10, 1.15, 0.05
"""Or the same of this many means over some steps, never below this number times the first, which came within this share of the
steps (our choice)."""
_MEAN = re.compile(r"(?i)mean|avg|average|running|smooth")
EQUAL_MIN, DIGITS = 6, 3
"""The losses and the scores of this many newest epochs are equal in every printed digit, of which the losses have at least this
many (our choice)."""
HOLD_S = 10.0
NORMS_MIN, MOVED = 4, 0.02
"""At least this many norms of the gradients, all that are finite, are exactly 0, and the losses are within this share of each
other (our choice)."""


def _reported(epochs: PointSeries) -> list[float]:
    """Return the epochs, each once, in the order in which they were reported."""
    return [epoch for epoch, _ in groupby(epochs.values)]


def once_an_epoch(series: PointSeries, epochs: PointSeries) -> bool:
    """Return whether there is one loss for each epoch, whatever else is reported in it."""
    reported = _reported(epochs)
    return len(reported) >= len(series) and all(after == before + 1 for before, after in pairwise(reported))


def only_gets_worse(evidence: Evidence, group: RankGroup, rank: Rank, name: str, series: PointSeries) -> tuple[str, str] | None:
    """Return the title and the fact of a loss that has never been as low as in the first epoch (J02)."""
    values, epochs = series.values, evidence.series(logged.run_id(group), rank.rank, "epoch")
    later = values[1:]
    if len(later) < WORSE_MIN or values[0] <= 0 or not all(map(math.isfinite, values)):
        return None
    by_epochs = once_an_epoch(series, epochs) and epochs.values[0] <= 1
    seen = series.steps[0] <= SEEN_SHARE * series.steps[-1]
    if not by_epochs and (len(later) < STEPS_WORSE_MIN or not seen or _MEAN.search(name) is None):
        return None  # a single batch may be easy
    now = units.mean(later[len(later) // 2 :])
    if min(later) < (WORSE if by_epochs else STEPS_WORSE) * values[0] or now < WORSE_NOW * values[0]:
        return None
    if _improves(courses(evidence, group, is_a_training_score)):
        return None
    which = "epochs" if by_epochs else "reports"
    title = f"The loss has been higher in each of {len(later)} {which} than in the first: {units.metric(now)} lately"
    return title, f"{name} is at least {units.metric(min(later))} in each of the later {which}"


def never_changes(evidence: Evidence, group: RankGroup, rank: Rank, name: str, series: PointSeries) -> Judgement:
    """J03: the losses and the scores of the newest epochs are all equal, or the gradients are 0."""
    finding = _has_no_gradients(evidence, group, rank, name, series) or _is_equal(evidence, group, rank, name, series)
    return None if finding is None else Suspicion(finding, HOLD_S)


def _is_equal(evidence: Evidence, group: RankGroup, rank: Rank, name: str, series: PointSeries) -> Finding | None:
    newest, epochs = series.values[-EQUAL_MIN:], evidence.series(logged.run_id(group), rank.rank, "epoch")
    if not logged.is_printed(group) or len(newest) < EQUAL_MIN or not once_an_epoch(series, epochs):
        return None
    if min(newest) != max(newest) or not _has_digits(newest[0]):
        return None
    scores = [course for course in courses(evidence, group, is_a_training_score) if len(course.means) >= EQUAL_MIN]
    if not scores or any(min(course.means[-EQUAL_MIN:]) != max(course.means[-EQUAL_MIN:]) for course in scores):
        return None
    where = f"{logged.source(group)}: {name}"
    return tracked.about(
        group,
        "J03",
        "info",
        "possible",
        f"The loss and {scores[0].name} are the same in each of the last {EQUAL_MIN} epochs: {units.metric(newest[0])} and "
        f"{units.metric(scores[0].means[-1])}",
        [
            Fact(f"{name} is equal to the last digit, up to epoch {_reported(epochs)[-1]:g}", newest[0], where),
            Fact(f"{scores[0].name} is {units.metric(scores[0].means[-1])}", scores[0].means[-1], scores[0].source),
        ],
        "The model gives the same answer to every input, often that of the most frequent class, and its steps change that no "
        "more: the classes are far from equally frequent, its units are dead, or the learning rate has become 0.",
        "print(model(x).argmax(-1).unique(return_counts=True))  # a single class?\n"
        'print([g["lr"] for g in optimizer.param_groups])',
        "The model has learned what it can, and the learning rate is nearly 0.",
    )


def _has_no_gradients(evidence: Evidence, group: RankGroup, rank: Rank, name: str, series: PointSeries) -> Finding | None:
    run = logged.run_id(group)
    metric = next((item for item in sorted(rank.metrics) if "grad" in item.lower() and "norm" in item.lower()), None)
    norms = [value for value in evidence.series(run, rank.rank, metric).values if math.isfinite(value)] if metric else []
    values = series.values
    if metric is None or len(norms) < NORMS_MIN or any(norms) or not values or not all(map(math.isfinite, values)):
        return None
    if min(values) <= 0 or max(values) - min(values) > MOVED * max(values):
        return None
    return tracked.about(
        group,
        "J03",
        "warning",
        "possible",
        f"The gradients are 0 in each of {len(norms)} reports, and the loss stays at {units.metric(values[-1])}",
        [
            Fact(f"{metric} is exactly 0", 0.0, f"{logged.source(group)}: {metric}"),
            Fact(
                f"{name} was {units.metric(min(values))} to {units.metric(max(values))}",
                values[-1],
                f"{logged.source(group)}: {name}",
            ),
        ],
        "Nothing that the loss depends on is trained: every parameter is frozen, the loss is detached, or the mixed precision "
        "has become NaN and skips all steps.",
        "print([n for n, p in model.named_parameters() if p.requires_grad])\n"
        "print(loss.requires_grad, scaler.get_scale())  # after backward(): p.grad.abs().max() of a layer",
        "The norm is that of few parameters, or so small that the print rounds it to 0.",
    )


def _has_digits(value: float) -> bool:
    return len(repr(value).partition("e")[0].replace(".", "").lstrip("-0")) >= DIGITS


def _improves(scores: Sequence[Course]) -> bool:
    """Return whether a score of the training is higher in the second half of the reports than in the first."""
    for course in scores:
        half = len(course.means) // 2
        if is_score(course) and half and units.mean(course.means[half:]) > units.mean(course.means[:half]):
            return True
    return False
