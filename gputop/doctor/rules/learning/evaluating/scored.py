"""An evaluation score that stays at that of guessing while the training learns: by scores where no losses show it (part of
J05).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.rules.learning.evaluating.courses import Course, courses
from gputop.doctor.rules.learning.evaluating.evaluations import is_a_training_score, is_an_evaluation, is_score, words_of
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.only_loss import STRETCHES_MIN, opposes
from gputop.doctor.rules.support.policies import learns_policy
from gputop.losses import is_of_evaluation

SCORES_TIMES_MIN = 6
"""At least this many evaluations, as for losses (our choice)."""
REST = 0.3
"""The training's score has come so close to the highest possible one, as a share of what was missing at first (our choice)."""
BELOW = 0.6
"""An evaluation below this share of the training's first score is no better than before the training (our choice)."""
FROM_CHANCE, TIMES_CHANCE = 1.1, 5.0
"""Or it stays below this many times that score, while the training's rises to this many times it: the first was near chance
(our choice)."""
CLASSES_MIN = 4
"""A first loss of the logarithm of this: with fewer classes, a guess is too often right to be seen without another loss."""
BY_CHANCE, HARDLY = 1.7, 1.3
"""A score that is always below this many times the score of guessing, and hardly rises, is no better (our choice). A classifier
that guesses has a loss of -log of that."""
GUESS_MAX = 0.6
"""No guess has a higher score: of two classes, half are right, and the area under its curve is a half, too (our choice)."""
PERCENT = "_percent"
"""Ends the name of what was printed with "%"."""
_AREAS = frozenset(("auc", "auroc"))
_ACCURACIES = frozenset(("acc", "accuracy", "acc1", "top1"))
_SIDES = frozenset(("train", "training", "val", "valid", "validation", "eval", "evaluation", "test", "dev"))
_ALIKE = {"accuracy": "acc", "auroc": "auc", "top1": "acc", "acc1": "acc"}
NO_OBJECTS_TIMES, HIGHEST, HALVED = 8, 0.001, 0.5
"""A mean average precision that is at most this in this many evaluations has found nothing, though the sum of the losses has
fallen to half: detectors log no such sum, and print their parts rounded (our choice)."""
_PRECISION = re.compile(r"(?i)(?:^|[/_.])map(?:@?\.?\d{1,3}(?:[-:]\.?\d{1,3})?)?(?:\([a-z]\))?$")
"""Only evaluations measure it: it needs no word for them in its name."""


class Guess(NamedTuple):
    """A score of the evaluation that is that of guessing, and what the training has learned."""

    course: Course
    training: Fact


def stays_at_guessing(evidence: Evidence, group: RankGroup) -> Guess | None:
    """Return a score that stays at guessing, while the training's rises; None if the evaluation has a loss."""
    ranks = logged.ranks_of(group)
    evaluations = courses(evidence, group, is_an_evaluation)
    # A loss of the evaluation that was better once shows that the model had learned something.
    if not ranks or not all(map(is_score, evaluations)) or learns_policy(ranks):
        return None
    trained = {measure_of(item.name): item for item in courses(evidence, group, is_a_training_score)}
    pairs = [(item, trained[measure_of(item.name)]) for item in evaluations if measure_of(item.name) in trained]
    if not pairs or not all(_is_no_better(score, training) for score, training in pairs):
        return None
    score, training = pairs[0]
    first, now = training.means[0], units.mean(training.means[-2:])
    text = f"{training.name} rose from {units.metric(first)} to {units.metric(now)}"
    return Guess(score, Fact(text, now, training.source))


def never_right(scores: Sequence[Course], highest: float) -> Course | None:
    """Return an accuracy that stays at guessing; ``highest``: that training loss, which must be of several classes."""
    if highest < math.log(CLASSES_MIN) or not all(is_guessing(score, highest) for score in scores):
        return None
    return next((score for score in scores if words_of(score.name) & _ACCURACIES), None)


def is_guessing(course: Course, highest: float, times: int = SCORES_TIMES_MIN) -> bool:
    """Return whether a score never got far above that of a model which guesses, and whose loss is the highest one.

    ``times``: how many evaluations it takes to tell.
    """
    return course.highest <= min(GUESS_MAX, BY_CHANCE * math.exp(-highest)) * _limit(course) and _hardly_rises(course, times)


def finds_nothing(evidence: Evidence, group: RankGroup) -> Guess | None:
    """Return a mean average precision that is always 0 while the sum of the losses falls."""
    scores = courses(evidence, group, lambda name: _PRECISION.search(name) is not None)
    if not scores or not all(
        item.values >= NO_OBJECTS_TIMES and 0 <= item.lowest <= item.highest <= HIGHEST for item in scores
    ):
        return None
    rank = min(logged.ranks_of(group), key=lambda item: item.rank)
    names = [
        name
        for name in sorted(rank.metrics)
        if name.lower().endswith("loss") and not is_of_evaluation(name) and "scale" not in name and not opposes(name)
    ]
    levels = [evidence.levels(logged.run_id(group), rank.rank, name).stretches for name in names]
    if not levels or any(len(item) < STRETCHES_MIN or len(item) != len(levels[0]) for item in levels):
        return None
    start = sum(item[0].mean for item in levels)
    now = sum(units.mean([stretch.mean for stretch in item[-2:]]) for item in levels)
    if not 0 < now <= HALVED * start:
        return None
    text = f"the sum of {', '.join(names)} fell from {units.metric(start)} to {units.metric(now)}"
    return Guess(scores[0], Fact(text, now, f"{logged.source(group)}: {names[0]}"))


def finding(group: RankGroup, guess: Guess) -> Finding:
    """Return the finding on a score that stays at guessing."""
    course = guess.course
    low, high = units.metric(course.lowest), units.metric(course.highest)
    return tracked.about(
        group,
        "J05",
        "warning",
        "possible",
        f"{course.name} stays at {low} to {high}, as if the model guessed, while the training learns",
        [
            Fact(f"{course.name} was {low} to {high} in {course.values} evaluations", course.highest, course.source),
            guess.training,
        ],
        "A model that overfits has learned something about other data, too. This one has not: the labels of the two data sets "
        "may be numbered differently, their inputs prepared differently, or the labels do not belong to the inputs.",
        "print(train_set.classes == val_set.classes, train_set.class_to_idx == val_set.class_to_idx)  # the same numbers?\n"
        "evaluate(model.eval(), train_set)  # with the evaluation's code: as good as the training?",
        "The evaluation's data is meant to be of another kind, or the model learns by heart from its first steps on.",
    )


def _is_no_better(score: Course, training: Course) -> bool:
    if score.values < SCORES_TIMES_MIN or training.values < SCORES_TIMES_MIN or _limit(score) != _limit(training):
        return False
    limit, first, now = _limit(training), training.means[0], units.mean(training.means[-2:])
    if first <= 0 or limit - now > REST * (limit - first) or not _hardly_rises(score):
        return False
    if words_of(score.name) & _AREAS:
        return score.highest <= GUESS_MAX * limit
    return score.highest <= max(BELOW * first, FROM_CHANCE * first if now >= TIMES_CHANCE * first else 0.0)


def _hardly_rises(course: Course, times: int = SCORES_TIMES_MIN) -> bool:
    if course.values < times or len(course.means) < 2:
        return False
    half = len(course.means) // 2
    return units.mean(course.means[half:]) <= HARDLY * units.mean(course.means[:half])


def _limit(course: Course) -> float:
    return 100.0 if course.name.endswith(PERCENT) or course.highest > 1 else 1.0


def measure_of(name: str) -> frozenset[str]:
    """Return the words of a metric's name without those for its side, in one spelling."""
    words = {word for part in words_of(name) for word in part.split("_")}
    return frozenset(_ALIKE.get(word, word) for word in words - _SIDES)
