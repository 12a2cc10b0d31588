"""An evaluation so far above the training loss, or so unsteady, that a short log shows it, or the end of one (part of J05).

What is judged here needs no beginning: neither the loss of the untrained model nor how far the training loss has fallen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.rules.learning.evaluating.courses import Course, courses
from gputop.doctor.rules.learning.evaluating.evaluations import is_an_evaluation, is_score, words_of
from gputop.doctor.rules.learning.evaluating.scored import measure_of
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.only_loss import only_loss
from gputop.doctor.rules.support.rule import Judgement, Suspicion

TIMES_MIN, TRIPLED = 4, 3.0
"""This many evaluations rise each time, to this many times the first one (our choice)."""
ABOVE, FAR = 30.0, 100.0
"""Each is this many times the highest training loss, and the newest one as many as the second (our choice). A sum over the data
set is far above as well, but it does not rise while the training loss falls."""
LOG_LOSSES, COIN = 8, math.log(2)
"""Tree boosters call the mean loss of a classifier with two classes a log loss: this many are above that of a coin."""
SWINGS_MIN, SWING, LEARNED = 3, 3.0, 0.2
"""A loss jumps to this many times its last value, and falls back as far, this often each, while the training loss falls to
this share of its first value (our choice)."""
AT_LOWEST = 1.03
"""Each score has ended at its lowest, within this factor (our choice)."""
LEARNED_AREA, AREA_OF_COIN, BEFORE_MIN = 0.8, 0.5, 2
"""An area under the curve was at least the first in this many evaluations, all there are but the newest, which is at most the
second, that of a coin: a model that has learned may forget, but does not become worse than one that knows nothing."""
_AREAS = frozenset(("auc", "auroc"))
HARDLY_LESS = 0.99
"""The second half of the losses is at least this share of the first: they do not fall."""
HOLD_S = 5.0


def far_off(evidence: Evidence, group: RankGroup) -> Judgement:
    """J05: the evaluation's loss leaves the training's behind or swings back to the start, or it becomes worse than a coin."""
    found = only_loss(evidence, group)
    if found is None:
        return None
    rank, name = found
    trained = [value for value in evidence.series(logged.run_id(group), rank.rank, name).values if math.isfinite(value)]
    if len(trained) < TIMES_MIN or min(trained) <= 0 or trained[-1] > trained[0]:
        return None
    evaluations = courses(evidence, group, is_an_evaluation)
    scores = [course for course in evaluations if is_score(course)]
    ruined = next((score for score in scores if _is_ruined(score, scores)), None)
    if ruined is not None:
        training = Fact(f"{name} is {units.metric(trained[-1])}", trained[-1], f"{logged.source(group)}: {name}")
        low, high = units.metric(ruined.means[-1]), units.metric(min(ruined.means[:-1]))
        title = f"{ruined.name} has fallen from {high} or more to {low}, worse than a coin's, in one evaluation"
        others = [score for score in scores if score is not ruined]
        return Suspicion(_finding(group, ruined, title, [training, *_facts(others)], _APART), HOLD_S)
    for course in evaluations:
        if is_score(course) or measure_of(course.name) != measure_of(name) or course.values != len(course.means):
            continue
        training = Fact(f"{name} is {units.metric(trained[-1])}", trained[-1], f"{logged.source(group)}: {name}")
        times = course.means[-1] / trained[-1]
        if _runs_away(course, trained, scores):
            title = f"{course.name} rises each time, and is {units.count(round(times))} times the training loss"
            return Suspicion(_finding(group, course, title, [training, *_facts(scores)], _APART), HOLD_S)
        if _is_worse_than_a_coin(course, trained):
            title = f"{course.name} is {units.metric(course.means[-1])}, {units.count(round(times))} times the training's"
            coin = Fact(f"that of a coin is {units.metric(COIN)}", COIN, course.source)
            return Suspicion(_finding(group, course, title, [coin, training], _BY_HEART), HOLD_S)
        if _swings(course, trained, scores):
            title = f"{course.name} swings between {units.metric(course.lowest)} and {units.metric(course.highest)}"
            return Suspicion(_finding(group, course, title, [training, *_facts(scores)], _UNSTEADY), HOLD_S)
    return None


def _runs_away(course: Course, trained: Sequence[float], scores: Sequence[Course]) -> bool:
    means, highest = course.means, max(trained)
    rises = len(means) >= TIMES_MIN and all(before < after for before, after in pairwise(means))
    far = means[0] >= ABOVE * highest and means[-1] >= max(FAR * highest, TRIPLED * means[0])
    better = any(score.means[-1] > score.means[0] for score in scores)
    return len(trained) == len(means) and rises and far and not better


def _is_worse_than_a_coin(course: Course, trained: Sequence[float]) -> bool:
    if "logloss" not in words_of(course.name) or len(course.means) < LOG_LOSSES:
        return False
    half = len(course.means) // 2
    stays = units.mean(course.means[half:]) >= HARDLY_LESS * units.mean(course.means[:half])
    return stays and course.lowest >= max(COIN, FAR * max(trained))


def _swings(course: Course, trained: Sequence[float], scores: Sequence[Course]) -> bool:
    if len(trained) != len(course.means) or trained[-1] > LEARNED * trained[0] or not scores:
        return False
    pairs = list(pairwise(course.means))
    up = sum(after >= SWING * before for before, after in pairs)
    down = sum(SWING * after <= before for before, after in pairs)
    back = course.means[-1] >= max(trained[0], SWING * course.lowest)
    lost = all(score.means[-1] <= AT_LOWEST * min(score.means) for score in scores)
    return min(up, down) >= SWINGS_MIN and back and lost


def _is_ruined(score: Course, scores: Sequence[Course]) -> bool:
    before, limit = score.means[:-1], 1.0 if score.highest <= 1 else 100.0
    if _AREAS.isdisjoint(words_of(score.name)) or len(before) < BEFORE_MIN or min(before) < LEARNED_AREA * limit:
        return False
    # Scores of the same evaluation.
    beside = [other for other in scores if other.values == score.values]
    # Some print 0 where there is nothing to measure.
    return 0 < score.means[-1] <= AREA_OF_COIN * limit and all(other.means[-1] < min(other.means[:-1]) for other in beside)


def _facts(scores: Sequence[Course]) -> list[Fact]:
    return [Fact(f"{score.name} is {units.metric(score.means[-1])}", score.means[-1], score.source) for score in scores[:2]]


_APART = (
    "The evaluation's inputs are not prepared like those of the training, or the model differs when it evaluates: statistics "
    "of a batch norm that were never learned or have run away. Or the model memorizes its training samples.",
    "evaluate(model.eval(), train_set)  # as good as in the training? If not, eval() or its statistics are the reason\n"
    "# the same preparation for both sets; a higher momentum or larger batches for the batch norms",
    "The evaluation's data is meant to be of another kind.",
)
_BY_HEART = (
    "The model is sure of its answers on other data, and wrong: it has memorized its training samples.",
    "model.fit(..., early_stopping_rounds=50)  # and fewer leaves, a smaller depth, more regularization",
    "There are more than two classes, or the labels of the evaluation are not known.",
)
_UNSTEADY = (
    "The model is another one when it evaluates: the statistics of its batch norms lag behind weights that change quickly, as "
    "with a learning rate that is too high. Or the evaluation draws a few other samples each time.",
    "# a lower learning rate, larger batches, and the same samples in each evaluation\n"
    "evaluate(model.train(), val_set)  # steady? Then it is the batch norms",
    "The learning rate rises again on purpose (warm restarts).",
)


def _finding(group: RankGroup, course: Course, title: str, facts: Sequence[Fact], words: tuple[str, str, str]) -> Finding:
    low, high = units.metric(course.lowest), units.metric(course.highest)
    first = Fact(f"{course.name} was {low} to {high} in {course.values} evaluations", course.highest, course.source)
    return tracked.about(group, "J05", "warning", "possible", title, [first, *facts], *words)
