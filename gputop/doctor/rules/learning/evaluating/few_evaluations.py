"""What a few evaluations of a run that has trained for long show: it still finds nothing, or knows only the samples that it was
trained on (part of J05). Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Fact, Finding, Severity
from gputop.doctor.rules.learning.evaluating.courses import Course, courses
from gputop.doctor.rules.learning.evaluating.evaluations import is_a_training_score, is_score, words_of
from gputop.doctor.rules.learning.evaluating.scored import PERCENT, measure_of
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.policies import learns_policy
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.losses import is_of_evaluation
from gputop.snapshot import Rank

EVALUATIONS_MIN = 2
"""At least this many evaluations; one is enough after ``LATE_EPOCH`` epochs (our choice)."""
SINCE_EPOCH, LATE_EPOCH = 10, 20
"""All scores are exactly 0 in each of them, and the first came after this many epochs: a detector that is trained from scratch
finds nothing in its first ones (our choice)."""
BY_HEART, BEHIND, STEADY = 0.995, 0.15, 0.9
"""The training's score is at least the first number, and the evaluation's of the same name lower by the second, in each of them
(our choice), as shares of the highest possible one. In the second half of its reports, it was never below the third: batches
of a single class may all be right, until the next class comes."""
LOST, FALLS_MIN, STILL = 0.75, 3, 0.99
"""The evaluation's accuracy is at most this share of its best, and has fallen this often in a row up to now, while the
training's of the same name is within this share of its highest (our choice)."""
_FOUND = frozenset(("precision", "recall", "f1", "map", "iou", "miou", "dice", "map50"))
"""What is 0 where nothing is found. An accuracy of few samples may be 0 by chance."""
_ACCURACIES = frozenset(("acc", "accuracy"))
HOLD_S = 10.0


def few_evaluations(evidence: Evidence, group: RankGroup) -> Judgement:
    """J05: after many epochs, every score is 0, or the training's is perfect and the evaluation's far from it."""
    ranks = logged.ranks_of(group)
    if not ranks or learns_policy(ranks):
        return None
    finding = _finds_nothing(evidence, group) or _loses_its_score(evidence, group) or _knows_its_samples(evidence, group)
    return None if finding is None else Suspicion(finding, HOLD_S)


def _finds_nothing(evidence: Evidence, group: RankGroup) -> Finding | None:
    run, rank = logged.run_id(group), min(logged.ranks_of(group), key=lambda item: item.rank)
    scores = courses(evidence, group, lambda name: bool(words_of(name) & _FOUND))
    if not scores or any(item.lowest or item.highest for item in scores):
        return None
    first = evidence.series(run, rank.rank, scores[0].name).steps
    since = _epoch_at(evidence, group, rank, first[0]) if first else 0.0
    if since < (SINCE_EPOCH if min(item.values for item in scores) >= EVALUATIONS_MIN else LATE_EPOCH):
        return None
    names = " and ".join(item.name for item in scores[:2])
    return _finding(
        group,
        "warning",
        f"After {since:.0f} epochs, the evaluation finds nothing: {names} {'is' if len(scores) == 1 else 'are'} 0",
        [Fact(f"{item.name} was 0 in each of {item.values} evaluations", 0.0, item.source) for item in scores[:3]],
        "The evaluation's labels or the model's outputs are not what is compared: other names or numbers of the classes, "
        "boxes in another format, a threshold that no answer passes. Or the model answers the same to every input.",
        "evaluate(model.eval(), train_set)  # also 0? Then it is the evaluation's code or the labels\n"
        "print(predictions[0], targets[0])  # the same classes, formats and units?",
        "The task is so hard that learning begins later.",
    )


def _loses_its_score(evidence: Evidence, group: RankGroup) -> Finding | None:
    trained = {measure_of(item.name): item for item in courses(evidence, group, is_a_training_score)}
    for score in courses(evidence, group, _is_an_accuracy_of_an_evaluation):
        own, newest = trained.get(measure_of(score.name)), score.means[-FALLS_MIN - 1 :]
        if own is None or own.means[-1] < STILL * own.highest or own.means[-1] < own.means[0]:
            continue
        falls = len(newest) > FALLS_MIN and all(after < before for before, after in pairwise(newest))
        if not falls or newest[-1] > LOST * max(score.means):
            continue
        best = max(score.means)
        return _finding(
            group,
            "warning",
            f"{score.name} has fallen from {units.metric(best)} to {units.metric(newest[-1])}, while {own.name} is "
            f"{units.metric(own.means[-1])}",
            [
                Fact(f"{score.name} has fallen in each of the last {FALLS_MIN} reports", newest[-1], score.source),
                Fact(f"{own.name} is {units.metric(own.means[-1])}", own.means[-1], own.source),
            ],
            "The model still learns its training samples, and ever less that holds for others; or it differs when it "
            "evaluates: statistics of batch norms that run away, a dropout or an augmentation that is not switched off.",
            "evaluate(model.eval(), train_set)  # as good as in the training? If not, it is the evaluation\n"
            "# keep the weights of the best evaluation; a lower learning rate, more data, weight decay",
            "The evaluation's data is another each time.",
        )
    return None


def _knows_its_samples(evidence: Evidence, group: RankGroup) -> Finding | None:
    rank = min(logged.ranks_of(group), key=lambda item: item.rank)
    trained = {measure_of(item.name): item for item in courses(evidence, group, is_a_training_score)}
    for score in courses(evidence, group, _is_an_accuracy_of_an_evaluation):
        own = trained.get(measure_of(score.name))
        if own is None or not is_score(own) or own.values < EVALUATIONS_MIN:
            continue
        steps = evidence.series(logged.run_id(group), rank.rank, score.name).steps
        if score.values < EVALUATIONS_MIN and (not steps or _epoch_at(evidence, group, rank, steps[0]) < LATE_EPOCH):
            continue
        highest = _limit(own, score)
        now = own.means[-EVALUATIONS_MIN:]
        if min(own.means[len(own.means) // 2 :]) < STEADY * highest:
            continue
        if min(now) < BY_HEART * highest or max(score.means[-EVALUATIONS_MIN:]) > min(now) - BEHIND * highest:
            continue
        return _finding(
            group,
            "info",
            f"The model knows its training samples by heart: {own.name} is {units.metric(own.means[-1])}, "
            f"{score.name} {units.metric(score.means[-1])}",
            [
                Fact(f"{item.name} was {units.metric(item.means[-1])} in the newest report", item.means[-1], item.source)
                for item in (own, score)
            ],
            "There is nothing left to learn from these samples, so that more epochs hardly help: there are too few of them for "
            "the size of the model, or the other data is of another kind.",
            "# augmentation, dropout, weight decay, a smaller model, or more data\n"
            "# and keep the weights of the best evaluation",
            "This is as good as it gets on that data.",
        )
    return None


def _epoch_at(evidence: Evidence, group: RankGroup, rank: Rank, at: int) -> float:
    """Return the epoch in which a step was; 0 if it is not known."""
    epochs = [value for step, _, value in evidence.series(logged.run_id(group), rank.rank, "epoch") if step <= at]
    return epochs[-1] if epochs else 0.0


def _is_an_accuracy_of_an_evaluation(name: str) -> bool:
    return is_of_evaluation(name) and bool(words_of(name) & _ACCURACIES)


def _limit(*scores: Course) -> float:
    return 100.0 if any(item.name.endswith(PERCENT) or item.highest > 1 for item in scores) else 1.0


def _finding(
    group: RankGroup, severity: Severity, title: str, facts: Sequence[Fact], cause: str, fix: str, refuted: str
) -> Finding:
    return tracked.about(group, "J05", severity, "possible", title, facts, cause, fix, refuted)
