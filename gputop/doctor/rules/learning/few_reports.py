"""A run that does not learn, as a dozen reports show: a sum of no losses, a loss that is a guess's to the last digit, and
scores that are the same in each epoch (part of J03). Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby, pairwise

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.rules.learning.evaluating.courses import Course, courses
from gputop.doctor.rules.learning.evaluating.evaluations import (
    DIGITS_MIN,
    is_a_training_score,
    is_an_evaluation,
    is_score,
    words_of,
)
from gputop.doctor.rules.learning.evaluating.scored import measure_of
from gputop.doctor.rules.learning.guessing import CLASSES
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.only_loss import opposes
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.history.points import PointSeries
from gputop.snapshot import Rank, names_a_loss

ZEROS_MIN = 8
"""Detectron2's sum of the losses is exactly 0 in this many reports, all there are (our choice). It prints four significant
digits, so no loss was rounded to 0, and it prints each part of the sum: there is none."""
GUESSES_MIN, VARIED_MIN, STRETCH_TIMES = 12, 4, 3
"""This many newest losses are equal to the logarithm of a number of classes, in every printed digit, after at least that many
other values, none of which was repeated a third as often (our choice)."""
DECIMALS_MIN = 4
"""Fewer decimals are equal by chance."""
SAME_MIN, SAME_MAX = 10, 0.9
"""The scores of the training and of the evaluation are the same in this many epochs, and below this (our choice): a model that
has learned what it can may answer the same each time."""
MOVED = 0.1
"""Meanwhile the training loss has fallen by less than this share (our choice): a model that has just begun learns faster."""
WRONG_MIN, SCORES_MIN = 3, 2
"""All training accuracies of a run, at least the second number, are exactly 0 in this many newest reports, and were not before
(our choice): the first one of many classes is soon above that, the first five are by chance."""
_ACCURACIES = frozenset(("acc", "accuracy", "acc1", "acc5", "top1", "top5"))
HOLD_S = 10.0


def stands_in_few(evidence: Evidence, group: RankGroup, rank: Rank, name: str, series: PointSeries) -> Judgement:
    """J03: no loss is summed, the loss is exactly that of a guess, or the scores of both data sets never change."""
    finding = (
        _sums_nothing(evidence, group, rank, name, series)
        or _guesses_exactly(group, name, series)
        or _answers_alike(evidence, group, name, series)
    )
    return None if finding is None else Suspicion(finding, HOLD_S)


def knows_nothing_any_more(evidence: Evidence, group: RankGroup) -> Judgement:
    """J03: every accuracy of the training has become exactly 0."""
    scores = courses(evidence, group, lambda name: is_a_training_score(name) and bool(words_of(name) & _ACCURACIES))
    if len(scores) < SCORES_MIN or not all(len(score.means) > WRONG_MIN and score.highest > 0 for score in scores):
        return None
    if any(any(score.means[-WRONG_MIN:]) for score in scores):
        return None
    before = max(scores, key=lambda score: score.highest)
    finding = tracked.about(
        group,
        "J03",
        "warning",
        "possible",
        f"{' and '.join(score.name for score in scores[:2])} have been exactly 0 in the last {WRONG_MIN} reports or more",
        [
            Fact(f"{before.name} was up to {units.metric(before.highest)} before", before.highest, before.source),
            *(Fact(f"{score.name} is 0", 0.0, score.source) for score in scores[:2]),
        ],
        "Not even a guess is always wrong: the outputs have become NaN, or are the same for all classes, and none of them is "
        "counted as right.",
        "assert torch.isfinite(output).all()  # in the step at which it begins\n"
        "# start again with a lower learning rate, and check that the labels are those of the outputs",
        "The reports are those of very few samples.",
    )
    return Suspicion(finding, HOLD_S)


def _sums_nothing(evidence: Evidence, group: RankGroup, rank: Rank, name: str, series: PointSeries) -> Finding | None:
    losses = {metric for metric in rank.metrics if names_a_loss(metric)}
    if not logged.is_printed(group) or name != "total_loss" or losses != {name} or "data_time" not in rank.metrics:
        return None
    rates = evidence.series(logged.run_id(group), rank.rank, "lr").values
    if len(series) < ZEROS_MIN or any(series.values) or not rates or min(rates) <= 0:
        return None
    where = f"{logged.source(group)}: {name}"
    return tracked.about(
        group,
        "J03",
        "warning",
        "possible",
        f"{name} is exactly 0 in all {len(series)} reports, and no part of it is printed",
        [
            Fact(f"steps {units.count(series.steps[0])} to {units.count(series.steps[-1])}: {name} is 0", 0.0, where),
            Fact(f"lr is {units.metric(rates[-1])}", rates[-1], f"{logged.source(group)}: lr"),
        ],
        "The model returns no loss, so that nothing is summed and no weight changes: its heads are missing, or no sample has "
        "an annotation that counts.",
        "print(model(batch))  # in training mode: a dict with each loss; an empty one is the reason\n"
        'print([len(item["instances"]) for item in batch])  # how many annotations are left of each sample?',
        "The run only measures how long a step takes.",
    )


def _guesses_exactly(group: RankGroup, name: str, series: PointSeries) -> Finding | None:
    if not logged.is_printed(group) or opposes(name) or len(series) < GUESSES_MIN + VARIED_MIN:
        return None
    loss = series.values[-1]
    classes = next((number for number in CLASSES if _is_written(loss, math.log(number))), None)
    stretches = [len(list(values)) for _, values in groupby(series.values)]
    varied = set(series.values) - {loss}
    if classes is None or len(varied) < VARIED_MIN or not all(map(math.isfinite, varied)):
        return None
    if stretches[-1] < max(GUESSES_MIN, STRETCH_TIMES * max(stretches[:-1])):
        return None
    number = stretches[-1]
    where = f"{logged.source(group)}: {name}"
    return tracked.about(
        group,
        "J03",
        "warning",
        "possible",
        f"The last {number} losses are all {units.metric(loss)}, that of a guess among {classes} classes",
        [
            Fact(f"ln {classes} is {math.log(classes):.6f}", loss, where),
            Fact(f"before, it was {units.metric(min(varied))} to {units.metric(max(varied))}", max(varied), where),
        ],
        "The model gives each class the same score, whatever the input: a step that was too large has switched off its units "
        "(ReLU), or its weights and biases have become 0.",
        "print(model(x))  # the same for each input?\n"
        "# start again with a lower learning rate, normalized inputs, and clipped gradients",
        "The loss is not the cross-entropy of the training.",
    )


def _is_written(loss: float, exact: float) -> bool:
    """Return whether a printed loss is this number, rounded to its decimals."""
    decimals = len(repr(loss).partition(".")[2])
    return decimals >= DECIMALS_MIN and loss == round(exact, decimals)


def _answers_alike(evidence: Evidence, group: RankGroup, name: str, series: PointSeries) -> Finding | None:
    evaluations = courses(evidence, group, is_an_evaluation)
    trained = {measure_of(item.name): item for item in courses(evidence, group, is_a_training_score)}
    pairs = [
        (trained[measure_of(item.name)], item) for item in evaluations if is_score(item) and measure_of(item.name) in trained
    ]
    # It shows that each report has an evaluation of its own.
    moving = any(not is_score(item) and _all_differ(item.means[-SAME_MIN:]) for item in evaluations)
    if len(pairs) != 1 or not moving or len(series) < SAME_MIN:
        return None
    own, other = pairs[0]
    first, now = series.values[-SAME_MIN], series.values[-1]
    if not (_is_same(own) and _is_same(other)) or not _has_digits(own.means[-1]) or abs(first - now) > MOVED * abs(first):
        return None
    if len(own.means) != len(series) or len(other.means) != len(series) or not _all_differ(series.values[-SAME_MIN:]):
        return None
    return tracked.about(
        group,
        "J03",
        "warning",
        "possible",
        f"{own.name} is {units.metric(own.means[-1])} and {other.name} {units.metric(other.means[-1])} in each of "
        f"{SAME_MIN} epochs",
        [
            Fact(f"{name} was {units.metric(first)}, and is {units.metric(now)}", now, f"{logged.source(group)}: {name}"),
            Fact(f"{own.name} is the same to the last digit", own.means[-1], own.source),
        ],
        "Steps change the weights, but hardly an answer: the model gives the same class to nearly every input. The classes are "
        "far from equally frequent, the learning rate does not fit, or the inputs say little about the labels.",
        "print(model(x).argmax(-1).unique(return_counts=True))  # a single class?\n"
        "# another learning rate, normalized inputs, a weight for each class",
        "The model has just begun to learn, or has learned what it can.",
    )


def _is_same(course: Course) -> bool:
    newest = course.means[-SAME_MIN:]
    return len(newest) == SAME_MIN and min(newest) == max(newest) and 0 < newest[0] < SAME_MAX


def _has_digits(value: float) -> bool:
    return len(repr(value).replace(".", "").lstrip("0")) >= DIGITS_MIN


def _all_differ(values: Sequence[float]) -> bool:
    return len(values) >= SAME_MIN and all(before != after for before, after in pairwise(values))
