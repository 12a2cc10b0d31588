"""A model that overfits: the evaluation's loss has turned, and rises while the training's falls (J05)."""

from __future__ import annotations

import itertools
import re
import statistics
from collections.abc import Sequence

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.rules.learning.evaluating.courses import Course, courses
from gputop.doctor.rules.learning.evaluating.evaluations import is_an_evaluation, is_score, words_of
from gputop.doctor.rules.learning.evaluating.few_epochs import begins_at, overfits_at_once
from gputop.doctor.rules.learning.evaluating.scored import measure_of
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.only_loss import STRETCHES_MIN, is_a_penalty, only_loss, opposes
from gputop.doctor.rules.support.rule import Judgement, Suspicion

SINCE_MIN = 10
"""At least this many evaluations have come since the best one (our choice)."""
RISEN = 1.5
"""The median of the newest losses is this many times the lowest. A classifier whose answers become ever more confident, right
or wrong, also gets that far: so a score must have fallen, too (our choice)."""
SINCE_IF_MUCH, RISEN_MUCH = 5, 2.0
"""This few are enough if each is worse than the last and their median is this many times the lowest (our choice)."""
RISEN_WITH_SCORES = 1.3
"""The same if a score has fallen: then the model is not just more confident (our choice)."""
RISEN_FROM_FIRST, RISING_SHARE = 1.2, 0.7
"""A loss that was never lower than at first has risen to this multiple of it and rose in this share of the evaluations: from
the first epoch on, what is learned says nothing about other data (our choice)."""
NEVER_MIN, APART = 15, 5.0
"""Or in this many evaluations a loss has never been as low as in the first, and it is this many times the training loss of the
same name: what is learned after the first epoch says nothing about other data (our choice)."""
FALLEN = 0.97
"""A score has fallen below this share of its best (our choice)."""
NEWEST = 3
FITTED = 0.3
"""The training loss has fallen to this share of its initial value (our choice)."""
FITTED_BY = 0.5
"""Losses below 0 have fallen, or risen, by this share of what they were (our choice)."""
_OF_FIVE = re.compile(r"(?i)(?:acc(?:uracy)?|top|prec|r(?:ecall)?)[@_-]?(?:5|10)(?!\d)")
_LOSSES = frozenset(("nll", "ce", "bce", "logloss", "ppl", "perplexity", "xent", "mse", "rmse", "mae"))
HOLD_S = 5.0


def overfits(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge a run whose evaluations have become worse for long, while its training loss went on falling."""
    found = only_loss(evidence, group)
    if found is None:
        return None
    rank, name = found
    begin = begins_at(evidence, group, rank, name)
    stretches = evidence.levels(logged.run_id(group), rank.rank, name).stretches
    means = [stretch.mean for stretch in stretches if begin is None or stretch.step >= begin]
    evaluations = courses(evidence, group, is_an_evaluation, begin)
    # A score that came once is that of a test at the end.
    scores = [course for course in evaluations if is_score(course) and course.values > NEWEST]
    first = [course for course in scores if not _OF_FIVE.search(course.name)]
    scores = first or scores  # what is among the first five stays there for long
    losses = _losses(evaluations, name)
    at_once = next((course for course in losses if overfits_at_once(means, course, scores)), None)
    if at_once is not None:
        fallen = [(score, score.means[-1]) for score in scores]
        return Suspicion(_overfits(group, at_once, at_once.means[-1], fallen, _fallen(group, name, means)), HOLD_S)
    if len(means) < STRETCHES_MIN or not _has_fitted(means[0], means[-1]):
        return None
    if not all(_has_fallen(course) for course in scores):
        return None
    turned = next((course for course in losses if _has_turned(course, bool(scores))), None)
    training = _fallen(group, name, means)
    if turned is None:
        trained = measure_of(name)
        never = next((course for course in evaluations if _never_fell(course, trained, means[-1])), None)
        # A score tells more than a loss.
        return None if never is None or scores else Suspicion(_learns_nothing_else(group, never, training), HOLD_S)
    fallen = [(score, _now(score)) for score in scores]
    return Suspicion(_overfits(group, turned, _now(turned), fallen, training), HOLD_S)


def _losses(evaluations: Sequence[Course], trained: str) -> list[Course]:
    """Return the losses of the evaluation, without penalties, which rise as the model learns; of parts and a sum, the sum."""
    losses = [course for course in evaluations if _is_a_loss(course) and not opposes(course.name)]
    losses = [course for course in losses if not is_a_penalty(course.name)]
    return [course for course in losses if measure_of(course.name) == measure_of(trained)] or losses


def _fallen(group: RankGroup, name: str, means: Sequence[float]) -> Fact:
    text = f"the training loss has fallen from {units.metric(means[0])} to {units.metric(means[-1])}"
    return Fact(text, means[-1], f"{logged.source(group)}: {name}")


def _overfits(group: RankGroup, turned: Course, now: float, scores: Sequence[tuple[Course, float]], training: Fact) -> Finding:
    number = turned.means.index(min(turned.means)) + 1
    best = f"# keep the weights of evaluation {number}, and stop some evaluations after the best one"
    return tracked.about(
        group,
        "J05",
        "info",
        "possible",
        f"The model overfits: {turned.name} has risen from {units.metric(turned.lowest)} to {units.metric(now)}",
        [
            Fact(
                f"{turned.name} was {units.metric(turned.lowest)} at its lowest, evaluation {number}",
                turned.lowest,
                turned.source,
            ),
            training,
            *(
                Fact(
                    f"{score.name} has fallen from {units.metric(max(score.means))} to {units.metric(fallen)}",
                    fallen,
                    score.source,
                )
                for score, fallen in scores[:2]
            ),
        ],
        "The model memorizes its training samples: there are too few of them for its size, or they are too much alike.",
        f"{best}\n# augmentation, dropout, weight decay, a smaller model, or more data",
        "The metric that matters is another one, and it still improves.",
    )


def _learns_nothing_else(group: RankGroup, never: Course, training: Fact) -> Finding:
    now = _now(never)
    first = Fact(
        f"{never.name} was {units.metric(never.lowest)} at its first evaluation, the lowest of {never.values}",
        never.lowest,
        never.source,
    )
    return tracked.about(
        group,
        "J05",
        "info",
        "possible",
        f"{never.name} has never fallen below its first value, {units.metric(never.lowest)}, and is now {units.metric(now)}",
        [first, training],
        "What the model learns after its first epoch does not help on this data: the data is encoded, scaled or labeled "
        "differently from the training data, or the model memorizes its training samples.",
        "# encode, scale and label both sets with the same object, fitted to the training set only\n"
        "# if they are alike: augmentation, dropout, weight decay, a smaller model, or more data",
        "The evaluation data is meant to differ: it comes from another domain.",
    )


def _has_fitted(first: float, now: float) -> bool:
    """Return whether a training loss has fallen far; one with a sign, such as that of an overlap, by a share of its size."""
    return now <= FITTED * first if now > 0 else now <= first - FITTED_BY * abs(first)


def _is_far_above(now: float, lowest: float) -> bool:
    return now >= RISEN * lowest if lowest > 0 else now >= lowest + FITTED_BY * abs(lowest)


def _is_a_loss(course: Course) -> bool:
    return any(word.endswith("loss") or word in _LOSSES for word in words_of(course.name))


def _now(course: Course) -> float:
    return statistics.median(course.means[-NEWEST:])


def _has_turned(course: Course, scores_fell: bool) -> bool:
    """Return whether a loss has fallen, and then risen in both halves of the evaluations since, or each time."""
    lowest = course.means.index(min(course.means))
    since = course.means[lowest:]
    much = RISEN_WITH_SCORES if scores_fell else RISEN_MUCH
    rises_much = 0 < much * since[0] <= _now(course) and all(before < after for before, after in itertools.pairwise(since))
    if len(since) > SINCE_IF_MUCH and rises_much:
        return True
    if lowest == 0:
        return _only_rises(course)
    half = len(since) // 2
    rises = units.mean(since[:half]) < units.mean(since[half:]) if half else False
    return len(since) > SINCE_MIN and rises and _is_far_above(_now(course), course.lowest)


def _only_rises(course: Course) -> bool:
    """Return whether a loss has never been as low as at its first evaluation, and has gone on rising since."""
    pairs = list(itertools.pairwise(course.means))
    rises = sum(before < after for before, after in pairs)
    enough = len(pairs) >= SINCE_MIN and rises >= RISING_SHARE * len(pairs)
    return enough and course.lowest > 0 and _now(course) >= RISEN_FROM_FIRST * course.means[0]


def _never_fell(course: Course, trained: frozenset[str], now: float) -> bool:
    """Return whether a loss was lowest at first, and stays far above ``now``, the training's of the same measure."""
    lowest = course.means[0]
    is_worse = course.values >= NEVER_MIN and 0 < lowest <= course.lowest and _now(course) > lowest
    return is_worse and _is_a_loss(course) and measure_of(course.name) == trained and _now(course) >= APART * now


def _has_fallen(course: Course) -> bool:
    return max(course.means) > 0 and _now(course) <= FALLEN * max(course.means)
