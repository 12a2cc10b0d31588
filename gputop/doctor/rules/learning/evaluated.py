"""An evaluation that does not follow the training loss as it falls: it gives the same value each time, stays far above, or is
never better than the first training loss (J05)."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.rules.learning.evaluating.courses import Course, courses
from gputop.doctor.rules.learning.evaluating.evaluations import (
    DIGITS_MIN,
    SCORES_MIN,
    TIMES_MIN,
    is_a_training_error,
    is_an_evaluation,
    is_same,
    is_score,
    is_telling,
    words_of,
)
from gputop.doctor.rules.learning.evaluating.far_off import (
    ABOVE,
    AREA_OF_COIN,
    AT_LOWEST,
    BEFORE_MIN,
    LEARNED_AREA,
    LOG_LOSSES,
    SWING,
    SWINGS_MIN,
    TRIPLED,
    far_off,
)
from gputop.doctor.rules.learning.evaluating.far_off import (
    LEARNED as SWINGS_AT,
)
from gputop.doctor.rules.learning.evaluating.far_off import TIMES_MIN as RISING_TIMES
from gputop.doctor.rules.learning.evaluating.few_epochs import (
    EPOCHS_MIN,
    GROWN,
    GROWN_SOON,
    GROWN_WITH_SCORES,
    RISES_LEAST,
    RISES_MIN,
    TRAINED,
)
from gputop.doctor.rules.learning.evaluating.few_epochs import FALLEN as SCORE_FALLEN
from gputop.doctor.rules.learning.evaluating.few_evaluations import (
    BEHIND,
    BY_HEART,
    EVALUATIONS_MIN,
    FALLS_MIN,
    LATE_EPOCH,
    LOST,
    SINCE_EPOCH,
    STEADY,
    STILL,
    few_evaluations,
)
from gputop.doctor.rules.learning.evaluating.overfits import (
    APART,
    FALLEN,
    FITTED,
    FITTED_BY,
    NEVER_MIN,
    RISEN,
    RISEN_FROM_FIRST,
    RISEN_MUCH,
    RISEN_WITH_SCORES,
    RISING_SHARE,
    SINCE_IF_MUCH,
    SINCE_MIN,
    overfits,
)
from gputop.doctor.rules.learning.evaluating.scored import (
    BELOW,
    BY_CHANCE,
    CLASSES_MIN,
    FROM_CHANCE,
    GUESS_MAX,
    NO_OBJECTS_TIMES,
    REST,
    TIMES_CHANCE,
    Guess,
    finding,
    finds_nothing,
    is_guessing,
    measure_of,
    never_right,
    stays_at_guessing,
)
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.only_loss import STRETCHES_MIN, only_loss
from gputop.doctor.rules.support.rule import RARELY_S, Judgement, Rule, Suspicion, case

FELL = 0.7
"""The training loss has fallen to this share of its initial value, so the trained weights have changed (our choice)."""
FAR, FAR_TIMES_MIN = 100.0, 6
"""In at least this many evaluations, the loss is always this many times the highest training loss, which includes that of the
untrained model (our choice)."""
STAYS = 0.9
"""The second half of such losses is at least this share of the first half: a sum over the data set falls with the training
loss (our choice)."""
JUMPS, JUMPS_MIN = 1.5, 2
"""Or this often, one is this many times its predecessor: a sum is about as steady as the training loss (our choice)."""
LEARNED = 0.3
"""The training loss has fallen to this share of its initial value: a model that overfits has learned something before."""
NO_BETTER, ALONE = 0.95, 2.0
"""An evaluation loss that is never below this multiple of the untrained model's is no better than at first; the second value
applies, from the second evaluation on, where no score such as an accuracy confirms it (our choice)."""
FACTOR = 3.0
"""Or the errors of the evaluation, such as a squared and an absolute one, are multiples of the training's that differ by this
factor, and at least ``MUCH_WORSE``: those of sums are equal, and one that is a mean is no multiple (our choice)."""
MUCH_WORSE, FEW_TIMES_MIN = 10.0, 4
"""If the scores are those of guessing, this few evaluations are enough if each loss is this many times that of the untrained
model (our choice): the averages of a batch norm may lag for an epoch or two."""
RISES_MAX = 1.25
"""A loss may rise to this many times its first value, that of the untrained model, before it falls (our choice)."""
HARDLY_LESS = 0.99
"""The second half of its losses is at least this share of the first: that of inputs that are all alike changes a little with
the model's biases (our choice)."""
NOTHING, NOTHING_TIMES_MIN, HALVED = 0.001, 4, 0.5
"""A score that is at most this in this many evaluations has found nothing, though the training loss has fallen to half (our
choice): a detector finds something long before."""
SEEN_FROM_STEP = 50
HOLD_S = 5.0
_LOSSES = frozenset(("loss", "nll", "ce", "bce", "xent", "mse", "mae"))
"""What an evaluation measures as the training does; an error rate, a root or an exponential has another scale."""


def evaluation_stands(evidence: Evidence, group: RankGroup) -> Judgement:
    """J05: the training learns, and an evaluation gives the same value each time, stays far above, or stays at guessing."""
    by_losses = _by_losses(evidence, group)
    if by_losses is not None:
        return by_losses
    guess = finds_nothing(evidence, group) or stays_at_guessing(evidence, group)
    if guess is not None:
        return Suspicion(finding(group, guess), HOLD_S)
    return overfits(evidence, group) or far_off(evidence, group) or few_evaluations(evidence, group)


def _by_losses(evidence: Evidence, group: RankGroup) -> Judgement:
    found = only_loss(evidence, group)
    if found is None:
        return None
    rank, name = found
    stretches = evidence.levels(logged.run_id(group), rank.rank, name).stretches
    if len(stretches) < STRETCHES_MIN or stretches[0].step > SEEN_FROM_STEP:
        return None
    start, now = stretches[0].mean, units.mean([stretch.mean for stretch in stretches[-2:]])
    if start <= 0 or now > FELL * start:
        return None
    training = Fact(
        f"the training loss fell from {units.metric(start)} to {units.metric(now)}", now, f"{logged.source(group)}: {name}"
    )
    evaluations = courses(evidence, group, is_an_evaluation)
    still = [course for course in evaluations if is_same(course)]
    if still:
        return Suspicion(_same_each_time(group, still, training), HOLD_S)
    highest = max(stretch.mean for stretch in stretches)
    is_no_sum = _differ_in_factor(evidence, group, evaluations)
    far = next((course for course in evaluations if _stays_far(course, highest, is_no_sum)), None)
    if far is not None:
        return Suspicion(_far_above(group, far, highest, training), HOLD_S)
    scores = [course for course in evaluations if is_score(course)]
    nothing = next((score for score in scores if _finds_nothing(score)), None)
    if nothing is not None and now <= HALVED * start:
        return Suspicion(finding(group, Guess(nothing, training)), HOLD_S)
    untrained = start if highest <= RISES_MAX * start else highest
    times = FEW_TIMES_MIN if any(_is_much_worse(course, untrained) for course in evaluations) else FAR_TIMES_MIN
    if now > LEARNED * start or not all(is_guessing(score, untrained, times) for score in scores):
        return None
    above = next((course for course in evaluations if _is_no_better(course, untrained, bool(scores))), None)
    if above is not None:
        return Suspicion(_no_better(group, above, scores, training), HOLD_S)
    wrong = never_right(scores, start) if len(scores) == len(evaluations) else None
    return None if wrong is None else Suspicion(finding(group, Guess(wrong, training)), HOLD_S)


def _finds_nothing(score: Course) -> bool:
    return score.values >= NOTHING_TIMES_MIN and score.lowest >= 0 and score.highest <= NOTHING


def _same_each_time(group: RankGroup, still: Sequence[Course], training: Fact) -> Finding:
    course = min(still, key=lambda item: (not is_telling(item), item.name))
    value = course.highest
    facts = [
        Fact(f"{item.name} has been {units.metric(item.highest)} each of {item.values} times", item.highest, item.source)
        for item in sorted(still, key=lambda item: item.name != course.name)[:3]
    ]
    return tracked.about(
        group,
        "J05",
        "warning",
        "likely" if is_telling(course) else "possible",
        f"The evaluation gives the same value each time ({course.name} {units.metric(value)}), while the training loss falls",
        [*facts, training],
        "What is evaluated is not what is trained: a copy of the model that nothing updates, such as an average of its weights "
        "(EMA), or a checkpoint that is read again each time.",
        "print(sum((a - b).abs().sum().item() for a, b in zip(evaluated.parameters(), model.parameters())))  # is it another?\n"
        "with torch.no_grad():  # an average changes its tensors in place; e = ... only gives e another value\n"
        "    for e, p in zip(ema.parameters(), model.parameters()): e.lerp_(p, 1 - decay)",
        "The evaluated model is meant to stay as it is, such as a teacher's or a baseline.",
    )


def _far_above(group: RankGroup, course: Course, highest: float, training: Fact) -> Finding:
    low, high = units.metric(course.lowest), units.metric(course.highest)
    return tracked.about(
        group,
        "J05",
        "warning",
        "possible",
        f"{course.name} is always at least {course.lowest / highest:.0f} times the training loss, which falls",
        [Fact(f"{course.name} was {low} to {high} in {course.values} evaluations", course.lowest, course.source), training],
        "Not even an untrained model has such a loss on data like that of the training. The evaluation's data may not be "
        "prepared in the same way: scaling, normalization, a vocabulary, the order of columns. Or its loss is a sum.",
        "print(train_x.mean(0), train_x.std(0), val_x.mean(0), val_x.std(0))  # are they alike?\n"
        "val_x = scaler.transform(val_x)  # the scaler that was fitted on the training data",
        "The evaluation's loss is a sum over its batches, or in other units.",
    )


def _no_better(group: RankGroup, course: Course, scores: Sequence[Course], training: Fact) -> Finding:
    low, high = units.metric(course.lowest), units.metric(course.highest)
    facts = [
        Fact(f"{item.name} was {units.metric(item.lowest)} to {units.metric(item.highest)}", item.highest, item.source)
        for item in scores[:2]
    ]
    return tracked.about(
        group,
        "J05",
        "warning",
        "possible",
        f"{course.name} has never been below {low}, and does not fall with the training loss",
        [
            Fact(f"{course.name} was {low} to {high} in {course.values} evaluations", course.lowest, course.source),
            training,
            *facts,
        ],
        "A model that overfits has learned something about other data, too, before it learns by heart. This one has not: the "
        "labels of the two data sets may be numbered in different ways, their inputs prepared in different ways, or the labels "
        "do not belong to the inputs.",
        "print(train_set.classes == val_set.classes, train_set.class_to_idx == val_set.class_to_idx)  # the same numbers?\n"
        "evaluate(model.eval(), train_set)  # with the evaluation's code: as good as the training?",
        "The evaluation's data is meant to be of another kind, or the model learns by heart from its first steps on.",
    )


J05 = Rule(
    id="J05",
    order=1708,
    family="learning",
    title="The evaluation does not follow the training",
    from_printed=True,
    severities=("warning", "info"),
    confidences=("likely", "possible"),
    needs=(
        "journal: loss since the run began, else its files or output",
        "journal: metrics of evaluations, else its files or output",
    ),
    every_s=RARELY_S,
    threshold=(
        case(
            "An evaluation gives the same value each time",
            f"the training loss has fallen to {FELL:.0%} of its initial value, and a loss or an error of an evaluation is "
            f"equal to the last of {DIGITS_MIN} or more digits for {TIMES_MIN} times (likely)",
            f"an accuracy or another score, or fewer digits, for {SCORES_MIN} times (possible)",
            "0, 1 and 100 do not count, nor what is called the best or a target",
        ),
        case(
            "An evaluation finds nothing",
            f"{NOTHING_TIMES_MIN} evaluations have a score of {NOTHING:g} at most, and the training loss has fallen to "
            f"{HALVED:.0%} (possible); of mean average precisions {NO_OBJECTS_TIMES}, and the sum of all parts of the loss "
            "counts",
            f"{EVALUATIONS_MIN} evaluations after {SINCE_EPOCH} epochs or more, or one after {LATE_EPOCH}, find nothing: "
            "every such score is 0 (possible)",
        ),
        case(
            "The evaluation's loss stays far above the training's",
            f"the loss of {FAR_TIMES_MIN} evaluations was always {FAR:.0f} times the highest training loss, and its second "
            f"half is {STAYS:.0%} of the first or more, or {JUMPS_MIN} of them are {JUMPS:g} times the one before (possible)",
            f"each of its errors is at least {MUCH_WORSE:.0f} times its counterpart in the training, and one of these factors "
            f"is {FACTOR:g} times another (possible)",
            f"{RISING_TIMES} evaluations, one for each training loss of the same name, rise each time, all at {ABOVE:g} times "
            f"it or more, to {TRIPLED:g} times the first, and no score has risen (possible)",
            f"there is no score, the first of {NEVER_MIN} evaluations was the lowest, and they are {APART:g} times the "
            "training's of the same name (possible, info)",
        ),
        case(
            "The evaluation stays that of an untrained model",
            f"the training loss has fallen to {LEARNED:.0%}, and the loss of {FAR_TIMES_MIN} evaluations neither fell by "
            f"{1 - HARDLY_LESS:.0%} nor was below the training loss of the untrained model, while each score stayed below "
            f"{BY_CHANCE:g} times that of guessing, and {GUESS_MAX:g}; without a score, the loss must be {ALONE:g} times that "
            "training loss from the second evaluation on (possible)",
            "the loss of the untrained model is the highest training loss, or the first one if it rose by less than "
            f"{RISES_MAX - 1:.0%} before it fell",
            f"{FEW_TIMES_MIN} evaluations are enough beside a score, and may fall, if each loss is {MUCH_WORSE:.0f} times "
            "that training loss",
            f"such a score, with no loss of the evaluation and {CLASSES_MIN} or more classes (possible)",
            f"without one, the training's score has come to {REST:.0%} of what it lacked at first, and that of "
            f"{FAR_TIMES_MIN} evaluations stays below {BELOW:.0%} of the training's first, or below {FROM_CHANCE:g} times it "
            f"if the training's has risen {TIMES_CHANCE:g}-fold; an AUC stays below {GUESS_MAX:g} (possible)",
            f"{LOG_LOSSES} log losses do not fall, above that of a coin and {FAR:g} times the training's (possible)",
        ),
        case(
            "The evaluation gets worse while the training goes on",
            f"the training loss has fallen to {FITTED:.0%}, and in {SINCE_MIN} evaluations since its lowest, the evaluation's "
            f"has risen to {RISEN:g} times that, and each score has fallen by {1 - FALLEN:.0%} (possible, info)",
            f"losses below 0 have fallen and risen by {FITTED_BY:.0%} of what they were",
            f"the same in {SINCE_IF_MUCH} evaluations, if each is worse than the one before, and the newest {RISEN_MUCH:g} "
            f"times the lowest ({RISEN_WITH_SCORES:g} times if scores fell); or {SINCE_MIN} since the first, which was the "
            f"lowest, have come to {RISEN_FROM_FIRST:g} times that, and {RISING_SHARE:.0%} of them are worse than the "
            "one before",
            f"of {EPOCHS_MIN} to {STRETCHES_MIN - 1} epochs: if the training loss fell in each, to {TRAINED:.0%}, and the "
            f"evaluation's rose in the newest {RISES_MIN} or more to {GROWN:g} times its lowest; to {GROWN_WITH_SCORES:g} "
            f"times, or in {RISES_LEAST} to {GROWN_SOON:g} times, if each score is below {SCORE_FALLEN:.0%} of its best, and "
            "falls or is below its first (possible, info)",
            f"such losses rise and fall {SWING:g}-fold {SWINGS_MIN} times each, and end above the first training loss, which "
            f"has fallen to {SWINGS_AT:.0%}, with each score at its lowest, within {AT_LOWEST - 1:.0%} (possible)",
            f"an area under the curve was {LEARNED_AREA:g} or more in {BEFORE_MIN} or more evaluations, and is "
            f"{AREA_OF_COIN:g} or less in the newest, and no score of that is as good as before (possible)",
            f"the evaluation's accuracy has fallen {FALLS_MIN} times in a row, to {LOST:.0%} of its best or less, and the "
            f"training's is within {1 - STILL:.0%} of its best (possible)",
            f"the training's accuracy is {BY_HEART:g} or more in {EVALUATIONS_MIN} newest reports and was {STEADY:g} in half "
            f"of them, and the evaluation's lower by {BEHIND:g}, in as many or after {LATE_EPOCH} epochs (possible, info)",
        ),
    ),
    estimated=True,
    mechanism=(
        "The evaluated model is not the trained one: an average of weights that is never written back, a copy made before the "
        "training, or an old checkpoint. Or its data is not scaled, normalized, encoded or labeled like that of the training. "
        "Or the model overfits."
    ),
    signature="The training loss falls, and the validation's loss is the same after each epoch, or stays far above it.",
    look_alike="An accuracy that is 1 or 0; the best value so far; a validation loss that hardly moves, but moves; a loss that "
    "is summed over the data set.",
    fix="Evaluate the model that is trained, or update its average in place; prepare both kinds of data with the same code.",
    judge=evaluation_stands,
)


def _is_loss(course: Course) -> bool:
    return not _LOSSES.isdisjoint(words_of(course.name))


def _is_much_worse(course: Course, untrained: float) -> bool:
    return _is_loss(course) and course.lowest >= MUCH_WORSE * untrained


def _differ_in_factor(evidence: Evidence, group: RankGroup, evaluations: Sequence[Course]) -> bool:
    """Return whether the errors of the evaluation are different multiples of the training's, and thus no sums of as many."""
    trained = {measure_of(item.name): item.means[-1] for item in courses(evidence, group, is_a_training_error)}
    factors = [course.means[-1] / own for course in evaluations if (own := trained.get(measure_of(course.name), 0.0)) > 0]
    return len(factors) > 1 and min(factors) >= MUCH_WORSE and max(factors) >= FACTOR * min(factors)


def _stays_far(course: Course, highest: float, is_no_sum: bool) -> bool:
    """Return whether a loss is always far above the highest training loss, and does not fall with it or is no sum."""
    if not _is_loss(course) or course.values < FAR_TIMES_MIN or len(course.means) < 2 or course.lowest < FAR * highest:
        return False
    first, second = _halves(course)
    jumps = sum(after >= JUMPS * before for before, after in pairwise(course.means))
    return is_no_sum or second >= STAYS * first or jumps >= JUMPS_MIN


def _is_no_better(course: Course, untrained: float, confirmed: bool) -> bool:
    """Return whether a loss was never better than at first; ``confirmed``: whether scores are no better than guessing."""
    if not _is_loss(course) or len(course.means) < 2:
        return False
    if confirmed and _is_much_worse(course, untrained):
        return course.values >= FEW_TIMES_MIN
    if course.values < FAR_TIMES_MIN:
        return False
    first, second = _halves(course)
    if second < HARDLY_LESS * first or course.lowest < NO_BETTER * untrained:
        return False
    return confirmed or min(course.means[1:]) >= ALONE * untrained  # the first one may be before the training


def _halves(course: Course) -> tuple[float, float]:
    half = len(course.means) // 2
    return units.mean(course.means[:half]), units.mean(course.means[half:])
