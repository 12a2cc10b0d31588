"""A classifier that still guesses after many steps, by its loss alone or with its accuracy (part of J03). Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

from gputop import units
from gputop.doctor.evidence import windows
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.learning.evaluating.courses import courses
from gputop.doctor.rules.learning.evaluating.evaluations import is_an_evaluation, words_of
from gputop.doctor.rules.learning.weights_stay import warms_up
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.only_loss import opposes
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.history.points import PointSeries
from gputop.levels import Stretch
from gputop.snapshot import Rank

EPOCHS_MIN, EPOCHS_MAX = 10, 1e6
"""After this many passes over its data, a model that can learn has left chance; a number above the second is not a count of
passes (our choice)."""
EPOCHS_LEAST, EXACTLY = 6, 0.03
"""This many are enough for up to ``FEW_CLASSES`` classes if the logarithm of the accuracy is within this of the negative loss
(our choice)."""
BEGAN_WITHIN = 0.1
"""The first loss is no further from the mean: classes that cannot be told apart count as chance once the others do (our
choice)."""
STEADY_SHARE = 0.01
"""The means of both halves of the losses differ by less: it stays there (our choice)."""
CHANCE_WITHIN = 0.15
"""How far the logarithm of the accuracy may be from the negative loss: they are equal where the model gives each class the same
probability, and the loss is the cross-entropy. Classes may differ a little in size (our choice)."""
LOSSES_MIN, EVALUATIONS_MIN, FEW_CLASSES = 24, 3, 12
"""This many reports of a loss, each the mean of some steps, with this many evaluations in between, are enough for up to this
many classes, whatever the steps count: more classes take longer to be told apart (our choice)."""
EVALUATIONS, CLASSES_SEEN = 6, 100
"""This many evaluations are enough for up to this many classes (our choice)."""
CLASSES_MAX = 1e6
"""A smaller accuracy is no guess, but a mistake in what is logged (our choice)."""
CHANCE_STEPS = 500
"""Without an accuracy, the loss has stayed there for this many steps, 100 times as many for 1,000 classes, or for
``EPOCHS_MIN`` epochs (our choice)."""
CLASSES = (*range(2, 13), 100, 200, 1000)
"""Numbers of classes that are told apart by the loss of a guess: up to 12, and those of well-known data sets."""
BELOW, ABOVE = 0.004, 0.01
"""How far the mean loss may be from that of a guess, as shares of it. A model that cannot do better learns noise, which costs
a little (our choice)."""
UNSURE = 0.01
"""If twice the standard error exceeds this share of the mean, several class counts fit (our choice)."""
APART = 0.05
"""No average of the second half is further from their mean: a single batch says little (our choice)."""
STRETCHES_LEAST = 8
"""A course of fewer averages is too short for this (our choice)."""
SEEN_FROM = 50
"""The first average begins at this step or earlier: the start was seen."""
BEGAN_AT = 0.02
"""A new classifier begins about there. From further above, a language model may have come to such a loss (our choice)."""
_EPOCHS, _OF_EPOCHS = frozenset(("epoch", "epochs")), frozenset(("train", "training", "trainer", "current", "progress"))
_ACCURACY = frozenset(("accuracy", "acc", "acc1", "top1"))
_NOT_NOW = frozenset(("best", "max", "highest", "target"))
_CAUSE = (
    "The inputs say nothing about the labels, as they are in another order or all alike after a normalization, or no step "
    "changes the weights."
)
_FIX = """\
for x, y in loader: print(x[0], y[0]); break  # does the label belong to this input?
order = rng.permutation(len(x)); x, y = x[order], y[order]  # one order for both
# and overfit ten samples: if the model cannot, it has a fault"""


def guesses(evidence: Evidence, group: RankGroup, rank: Rank, name: str, series: PointSeries) -> Judgement:
    """J03: the loss stays at that of equal probabilities, and the accuracy at that of chance, over many epochs.

    It may have begun far above: a learning rate that is far too high ruins the model in the first epoch.
    """
    epoch = _epoch_of(rank)
    accuracy = next(
        (item for item in sorted(rank.metrics) if words_of(item) & _ACCURACY and not words_of(item) & _NOT_NOW), None
    )
    if epoch is None or accuracy is None:
        return None
    run = logged.run_id(group)
    steps = set(series.steps)
    epochs = windows.at(evidence.series(run, rank.rank, epoch), steps)
    right = windows.at(evidence.series(run, rank.rank, accuracy), steps)
    common = sorted(epochs.keys() & right.keys())
    if len(common) < EPOCHS_LEAST:
        return None
    number = max(epochs.values()) - min(epochs.values()) + 1  # the last line may name the best epoch
    if not EPOCHS_LEAST <= number <= EPOCHS_MAX:
        return None
    losses = windows.at(series, set(common))
    loss = _steady([losses[step] for step in common[1:]])
    first, first_share = losses[common[0]], _share([right[common[0]]])
    if loss is not None and abs(first - loss) > BEGAN_WITHIN * loss:
        was_right = first_share is not None and abs(math.log(first_share) + loss) <= 2 * CHANCE_WITHIN
        if first < loss or not was_right:
            return None  # it has learned to tell all classes but some apart, or knew more
    share = _share([right[step] for step in common])
    if loss is None or share is None or abs(math.log(share) + loss) > CHANCE_WITHIN:
        return None
    if min(number, len(common)) < EPOCHS_MIN and (
        abs(math.log(share) + loss) > EXACTLY or loss > math.log(FEW_CLASSES) + EXACTLY or warms_up(evidence, group, rank)
    ):
        return None
    chance = f"a guess among {math.exp(loss):.0f} classes"
    where = f"{logged.source(group)}: {name}, {accuracy}"
    finding = tracked.about(
        group,
        "J03",
        "warning",
        "possible",
        f"After {number:.0f} epochs, the model does no better than {chance}",
        [
            Fact(f"{name} stays at {units.metric(loss)}: e^-{units.metric(loss)} is {math.exp(-loss):.1%}", loss, where),
            Fact(f"{accuracy} is {share:.1%} on average", share, where),
        ],
        _CAUSE,
        _FIX,
        "The task is so hard that learning begins later.",
    )
    return Suspicion(finding, 5.0)


def stays_at_chance(evidence: Evidence, group: RankGroup, rank: Rank, name: str, series: PointSeries) -> Judgement:
    """J03: the loss is that of equal probabilities for a usual number of classes, and has hardly moved since the start."""
    run = logged.run_id(group)
    stretches = evidence.levels(run, rank.rank, name).stretches
    if len(stretches) < STRETCHES_LEAST or not series or stretches[0].step > SEEN_FROM or opposes(name):
        return None
    last = stretches[len(stretches) // 2 :]
    if warms_up(evidence, group, rank) or not all(0 < item.mean < 2 * math.log(CLASSES[-1]) for item in stretches):
        return None
    loss = _mean_of(last)
    classes = min(CLASSES, key=lambda number: abs(math.log(number) - loss))
    steps, epochs = series.steps[-1], _epochs_seen(evidence, rank, run)
    if steps < CHANCE_STEPS * max(1, classes // 10) and not EPOCHS_MIN <= epochs <= EPOCHS_MAX:
        return None
    chance, began = math.log(classes), stretches[0].mean
    error = 2 * statistics.pstdev([item.mean for item in last]) / math.sqrt(len(last)) / chance
    if error > UNSURE or not 1 - BELOW - error <= loss / chance <= 1 + ABOVE + error:
        return None
    early = _mean_of(stretches[len(stretches) // 8 : len(stretches) // 4 + 1])
    if not (abs(began - loss) <= BEGAN_WITHIN * loss and abs(early - loss) <= (STEADY_SHARE + error) * loss):
        return None
    widest = max(abs(item.mean - loss) for item in last)
    if widest > APART * loss or _steady([item.mean for item in last]) is None:
        return None
    where = f"{logged.source(group)}: {name}"
    many = f"{units.count(steps)} steps" if steps >= CHANCE_STEPS else f"{epochs:.0f} epochs"
    finding = tracked.about(
        group,
        "J03",
        "warning" if abs(began - loss) <= BEGAN_AT * loss else "info",
        "possible",
        f"After {many}, the loss is still that of a guess among {classes} classes: {units.metric(loss)}",
        [
            Fact(f"ln {classes} is {units.metric(chance)}; the loss began at about {units.metric(began)}", loss, where),
            Fact(
                f"in the second half of the run, its averages are within {units.metric(widest)} of {units.metric(loss)}",
                widest,
                where,
            ),
        ],
        _CAUSE,
        _FIX,
        "The task is so hard that learning begins later, or the loss is not the cross-entropy of that many classes, such as "
        "that of a language model.",
    )
    return Suspicion(finding, 10.0)


def evaluated_at_chance(evidence: Evidence, group: RankGroup, rank: Rank, name: str, series: PointSeries) -> Judgement:
    """J03: the loss stays at that of equal probabilities, and every evaluation finds an accuracy of chance.

    Where it began does not matter: with a rate far too high, the first steps ruin the model, and the loss comes down to chance.
    """
    if len(series) < LOSSES_MIN or opposes(name) or warms_up(evidence, group, rank):
        return None
    found = courses(evidence, group, lambda item: is_an_evaluation(item) and bool(words_of(item) & _ACCURACY))
    scores = [score for score in found if score.values > 1]  # once: that of a test at the end
    loss = steady_median(series.values)
    if loss is None or not math.log(2) - CHANCE_WITHIN <= loss <= math.log(CLASSES_SEEN) + CHANCE_WITHIN or not scores:
        return None
    evaluations = EVALUATIONS_MIN if loss <= math.log(FEW_CLASSES) + CHANCE_WITHIN else EVALUATIONS
    for score in scores:
        usual = _share(score.means)
        limits = (_share((score.lowest,)), _share((score.highest,)))
        if score.values < evaluations or usual is None or abs(math.log(usual) + loss) > CHANCE_WITHIN:
            return None
        if any(share is None or abs(math.log(share) + loss) > 2 * CHANCE_WITHIN for share in limits):
            return None  # few samples are right more or less often by chance
    first = scores[0]
    finding = tracked.about(
        group,
        "J03",
        "warning",
        "possible",
        f"After {first.values} evaluations, the model does no better than a guess among {math.exp(loss):.0f} classes",
        [
            Fact(
                f"{name} stays at {units.metric(loss)} in {units.count(len(series))} reports: e^-{units.metric(loss)} is "
                f"{math.exp(-loss):.1%}",
                loss,
                f"{logged.source(group)}: {name}",
            ),
            Fact(f"{first.name} is {units.metric(first.lowest)} to {units.metric(first.highest)}", first.highest, first.source),
        ],
        f"{_CAUSE} Or the learning rate is far too high, and the first steps have ruined the model.",
        _FIX,
        "The task is so hard that learning begins later.",
    )
    return Suspicion(finding, 5.0)


def _mean_of(stretches: Sequence[Stretch]) -> float:
    return math.fsum(item.mean * item.count for item in stretches) / sum(item.count for item in stretches)


def _epochs_seen(evidence: Evidence, rank: Rank, run: str | None) -> float:
    """Return over how many epochs a run reports; 0 if it does not say in which."""
    name = _epoch_of(rank)
    values = evidence.series(run, rank.rank, name).values if name is not None else ()
    return math.floor(max(values)) - math.floor(min(values)) + 1 if values and all(map(math.isfinite, values)) else 0.0


def _epoch_of(rank: Rank) -> str | None:
    """Return the name of the metric that counts epochs; None if there is none."""
    names = (item for item in sorted(rank.metrics) if words_of(item) & _EPOCHS and words_of(item) <= _EPOCHS | _OF_EPOCHS)
    return min(names, key=len, default=None)


def _steady(losses: Sequence[float]) -> float | None:
    """Return the mean loss; None if it moves, began elsewhere, or is not finite."""
    half = len(losses) // 2
    mean = units.mean(losses)
    apart = abs(units.mean(losses[:half]) - units.mean(losses[half:]))
    steady = apart <= STEADY_SHARE * mean and abs(losses[0] - mean) <= BEGAN_WITHIN * mean
    return mean if math.isfinite(mean) and mean > 0 and steady else None


def steady_median(losses: Sequence[float]) -> float | None:
    """Return the median loss; None if it moves, or is not finite."""
    half = len(losses) // 2
    before, now = statistics.median(losses[:half]), statistics.median(losses[half:])
    return now if math.isfinite(before) and math.isfinite(now) and abs(now - before) <= STEADY_SHARE * abs(now) else None


def _share(values: Sequence[float]) -> float | None:
    """Return the mean accuracy as a share, also if it is in percent; None if it is that of no guess, or not finite."""
    mean = units.mean(values)
    share = mean / 100 if mean > 1 else mean
    return share if math.isfinite(share) and 1 / CLASSES_MAX <= share < 0.6 else None
