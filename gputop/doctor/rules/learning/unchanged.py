"""The run does not learn: its learning rate is 0, or its loss does not change (J03)."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from itertools import groupby, pairwise

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Confidence, Fact, Finding, Severity
from gputop.doctor.rules.learning.all_wrong import ALL as WRONG
from gputop.doctor.rules.learning.all_wrong import EVALUATIONS_MIN as WRONG_TIMES
from gputop.doctor.rules.learning.all_wrong import all_wrong
from gputop.doctor.rules.learning.by_epochs import EQUAL_MIN, never_changes
from gputop.doctor.rules.learning.by_epochs import NORMS_MIN as ZERO_NORMS
from gputop.doctor.rules.learning.evaluating.evaluations import DIGITS_MIN, SCORES_MIN
from gputop.doctor.rules.learning.few_reports import (
    GUESSES_MIN,
    MOVED,
    SAME_MAX,
    SAME_MIN,
    VARIED_MIN,
    WRONG_MIN,
    ZEROS_MIN,
    knows_nothing_any_more,
    stands_in_few,
)
from gputop.doctor.rules.learning.guessing import (
    ABOVE,
    BEGAN_AT,
    BEGAN_WITHIN,
    CHANCE_STEPS,
    CHANCE_WITHIN,
    CLASSES_SEEN,
    EPOCHS_LEAST,
    EPOCHS_MIN,
    EVALUATIONS,
    EVALUATIONS_MIN,
    EXACTLY,
    FEW_CLASSES,
    LOSSES_MIN,
    evaluated_at_chance,
    guesses,
    stays_at_chance,
)
from gputop.doctor.rules.learning.kept_gradients import STEPS_MIN as KEPT_STEPS
from gputop.doctor.rules.learning.kept_gradients import accumulate, with_cause
from gputop.doctor.rules.learning.nothing_counts import NORMS_MIN, counts_nothing
from gputop.doctor.rules.learning.untouched import EPOCHS_MIN as UNTOUCHED_EPOCHS
from gputop.doctor.rules.learning.untouched import VANISHED_RATE, changes_nothing
from gputop.doctor.rules.learning.weights_stay import (
    ALIKE_MIN,
    BAND,
    COARSE_SHARE,
    PROBES_MIN,
    STEPS_MIN,
    evaluated_alike,
    weights_stay,
)
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.only_loss import STRETCHES_MIN, only_loss
from gputop.doctor.rules.support.rule import RARELY_S, Judgement, Rule, Suspicion, case
from gputop.history.points import PointSeries
from gputop.levels import Stretch
from gputop.snapshot import AUTOMATIC_PREFIX, Rank, own_or_automatic

ZERO_RATE_STEPS = 50
"""A schedule may end at 0 with the last step of a run, but this many steps at 0 are a mistake."""
ZERO_RATE_PRINTS = 12
"""This many are if only some steps are printed (our choice)."""
SAME_VALUES = 100
REDRAWN_TIMES = 3
"""A progress bar repeats a loss until the script sets the next one. A stretch this many times as long as the longest such one
is no repetition (our choice)."""
CONVERGED = 0.02
"""A loss that was below this share of its initial value before it became 0 has converged; a print rounds it (our choice)."""
FLAT_VALUES = 40
"""This many values of the loss, and as many of an evaluation, are a course even if they come once an epoch (our choice)."""
FEW_VALUES, NARROW = 12, 0.002
"""Fewer are enough if both stay within this share: the noise of real training is larger (our choice)."""
FEW_EVALUATIONS, SEEN_SHARE = 5, 0.05
"""This few evaluations are enough if the training's reports are as flat after their first fifth; the first of those is in this
share of the steps (our choice)."""
LEVEL = 0.003
"""Reports of a loss that learns vary by more than this (our choice)."""
FLAT_STEPS = 500
FLAT_SHARE = 0.01
FLAT_BAND = 0.05
FLAT_ERROR = 0.025
"""A loss is flat if the mean of its second half is 1% lower at most, or by that and the standard error of its eighths, and no
eighth left a band of 5% around their mean. Where that error is larger, nothing is known (our choice)."""
_SEEN_FROM_STEP = 50
_RATE = re.compile(r"^lr(?:/|$)|(?:^|/)(?:lr|learning_rate)$")
"""Frameworks' names for the learning rate: lr, one per parameter group (lr/0), or Transformers' learning_rate."""
_HELD_OUT = re.compile(r"(?i)(?:^|[/_.-])(?:val|valid|validation|eval|evaluation|test|dev)(?:[/_.-]|$)")
"""Names of what is measured on data that is not trained on."""


def loss_stays(evidence: Evidence, group: RankGroup) -> Judgement:
    """J03: the learning rate is 0, the loss or the weights are always the same, or the loss is back where it began."""
    nothing = counts_nothing(evidence, group)
    if nothing is not None:
        return nothing
    by_loss = _by_loss(evidence, group)
    if not (isinstance(by_loss, Suspicion) and by_loss.finding.confidence != "possible"):
        by_loss = changes_nothing(evidence, group) or by_loss
    return by_loss or knows_nothing_any_more(evidence, group) or accumulate(group)


def _by_loss(evidence: Evidence, group: RankGroup) -> Judgement:
    found = only_loss(evidence, group)
    if found is None:
        return None
    rank, name = found
    idle = _no_rate(evidence, group, rank)
    if idle is not None:
        return idle
    series = evidence.series(logged.run_id(group), rank.rank, name)
    stays = (
        _same(evidence, group, rank, name, series)
        or weights_stay(evidence, group, rank, name)
        or evaluated_alike(evidence, group, rank, name)
        or stands_in_few(evidence, group, rank, name, series)
    )
    if stays is not None:
        return stays
    flat = (
        guesses(evidence, group, rank, name, series)
        or evaluated_at_chance(evidence, group, rank, name, series)
        or all_wrong(evidence, group, name, series)
        or stays_at_chance(evidence, group, rank, name, series)
        or _flat(evidence, group, rank, name, series)
        or _flat_by_epochs(evidence, group, rank, name, series)
        or never_changes(evidence, group, rank, name, series)
    )
    return with_cause(group, flat)


J03 = Rule(
    id="J03",
    order=1707,
    family="learning",
    title="The run does not learn",
    from_printed=True,
    severities=("error", "warning", "info"),
    confidences=("certain", "likely", "possible"),
    needs=(
        "journal: loss since the run began and learning rate, else its files or output",
        "journal: parameters, else /proc: variables",
    ),
    every_s=RARELY_S,
    threshold=(
        case(
            "The learning rate or the gradients are 0",
            f"every learning rate is below {VANISHED_RATE:g} for {ZERO_RATE_STEPS} steps (certain), or {ZERO_RATE_PRINTS} "
            f"that Transformers' Trainer prints, while the loss stays within {BAND:.0%} (possible)",
            f"{NORMS_MIN} norms of the gradients, all there are, are exactly 0, and each loss is 0 or NaN (likely)",
            f"{ZERO_NORMS} or more norms of the gradients, all there are, are 0, and the loss stays; or, printed once an "
            f"epoch, the loss and each score are equal in {EQUAL_MIN} epochs (possible)",
        ),
        case(
            "Losses are equal",
            f"{SAME_VALUES} losses are equal to the last digit (likely); 0 does not count if the loss was below "
            f"{CONVERGED:.0%} of its initial value before",
            f"printed values may be rounded: then both are only possible (and {REDRAWN_TIMES} times as many losses as were "
            "ever equal before)",
            f"{ZEROS_MIN} sums of Detectron2's losses, all there are, are 0, without a part, at a rate above 0 (possible)",
        ),
        case(
            "The weights or the evaluations stay the same",
            f"the loss is within {BAND:.0%} of its initial value after {STEPS_MIN} steps, and {PROBES_MIN} samples of the "
            f"weights, one every 10 steps, are equal to the last bit, or weights in 16 bits differ in {COARSE_SHARE:.0%} of "
            "the values or fewer (likely; with several optimizers, or weights on a GPU, possible)",
            f"{ALIKE_MIN} evaluations or more give the same loss or error, to the last of {DIGITS_MIN} or more digits, and "
            f"the training loss is within {BAND:.0%} of its initial value (likely); or the same score, {SCORES_MIN} times "
            "(possible)",
            f"the scores of the training and of the evaluation, below {SAME_MAX:g}, are the same in {SAME_MIN} epochs, while "
            f"the evaluation's loss moves and the training's falls by less than {MOVED:.0%} (possible)",
        ),
        case(
            "The loss or the score is that of a guess",
            f"after {VARIED_MIN} other values or more, {GUESSES_MIN} printed losses are the logarithm of 2 to 12, 100, 200 or "
            "1,000 in each of 4 or more decimals (possible)",
            f"over {EPOCHS_MIN} epochs or more ({EPOCHS_LEAST} for up to {FEW_CLASSES} classes), the loss stays at L, from "
            f"the first on, and the accuracy is e^-L, which is that of a guess, within a factor of e^{CHANCE_WITHIN:g}, or "
            f"e^{EXACTLY:g} (possible)",
            f"the same in {LOSSES_MIN} reports of the loss, with that accuracy in {EVALUATIONS_MIN} evaluations or more, for "
            f"up to {FEW_CLASSES} classes, or {EVALUATIONS} for up to {CLASSES_SEEN} (possible)",
            f"after {CHANCE_STEPS} steps ({CHANCE_STEPS * 100:,} for 1,000 classes) or {EPOCHS_MIN} epochs, the mean loss of "
            f"the second half is that of a guess among up to 12, 100, 200 or 1,000 classes, within {ABOVE:.0%} or its own "
            f"error, as soon after the start; it began within {BEGAN_WITHIN:.0%} of it (possible; info unless within "
            f"{BEGAN_AT:.0%})",
        ),
        case(
            "The loss stays",
            f"after {FLAT_STEPS} steps, the loss's second half is lower by {FLAT_SHARE:.0%} or its noise at most, and no "
            f"eighth left a band of {FLAT_BAND:.0%} around their mean (possible)",
            f"neither {FLAT_VALUES} reports of the loss nor those of an evaluation's left a band of {FLAT_SHARE:.0%}, or "
            f"{FEW_VALUES} of {NARROW:.1%}; or {FEW_EVALUATIONS} evaluations did not leave the latter, nor {LOSSES_MIN} "
            f"reports of the loss the former after their first fifth, which began within {FLAT_BAND:.0%} of it (possible)",
        ),
        case(
            "Every answer is wrong",
            f"{WRONG_TIMES} or more evaluations find an error rate of {WRONG:.0%} or more, and the loss has been the same "
            "since the first quarter of its reports (possible)",
            f"every accuracy of the training, of two or more, is exactly 0 in {WRONG_MIN} newest reports, and was above "
            "before (possible)",
        ),
        case(
            "No step changes the model",
            f"in each of the first {KEPT_STEPS} steps, the backward pass found the gradients of the step before (possible)",
            "untracked, variables hold only optimizers with a rate of 0, or that keep nothing about any tensor, "
            f"{UNTOUCHED_EPOCHS} epochs later or beside a loss that stays, or with tensors of none of the models, one of "
            "which has as many (likely or possible); not if the loss has moved",
        ),
    ),
    estimated=True,
    mechanism=(
        "The steps change nothing: the learning rate is 0, the parameters are frozen or are not in the optimizer, the loss "
        "is detached from the model, the weights are too coarse for such small steps, or the data contains nothing to learn. "
        "Or gradients accumulate across steps, because nothing zeroes them."
    ),
    signature="The loss is constant, or stays where it began, while the GPUs work.",
    look_alike="Fine-tuning of weights that are already good; a warm-up with tiny rates; a loss that has reached exactly 0.",
    fix="Check the learning rate, requires_grad, and that the optimizer has this model's parameters.",
    judge=loss_stays,
)


def _no_rate(evidence: Evidence, group: RankGroup, rank: Rank) -> Judgement:
    automatic = (metric.removeprefix(AUTOMATIC_PREFIX) for metric in rank.metrics)
    names = sorted({own_or_automatic(item, rank.metrics) for item in automatic if _RATE.search(item)})
    rates = [evidence.series(logged.run_id(group), rank.rank, name).values[-ZERO_RATE_STEPS:] for name in names]
    # What Transformers' Trainer prints is one of many steps, and not rounded.
    least = ZERO_RATE_PRINTS if logged.is_printed(group) and names == ["learning_rate"] else ZERO_RATE_STEPS
    if not rates or any(len(values) < least or max(map(abs, values)) > VANISHED_RATE for values in rates):
        return None
    if len(rates[0]) < ZERO_RATE_STEPS and _moves(evidence, group):
        return None
    series = evidence.series(logged.run_id(group), rank.rank, names[0])
    last = next((point for point in reversed(series) if abs(point.value) > VANISHED_RATE), None)
    now = f"as good as 0 ({units.metric(series[-1].value)})" if series[-1].value else "0"
    since = f"since step {units.count(last.step + 1)}" if last is not None else f"for {units.count(len(series))} steps or more"
    where = f"{logged.source(group)}: {names[0]}"
    facts = [Fact(f"lr is {now} {since}", series[-1].value, where)]
    if last is not None:
        facts.append(Fact(f"it was {units.metric(last.value)} at step {units.count(last.step)}", last.value, where))
    cause = "The optimizer multiplies each step by the learning rate: with 0, the weights do not change."
    fix = (
        "# give the schedule as many steps as the run has, or end the run there; one that counts epochs steps once an epoch\n"
        "print(scheduler.get_last_lr())"
    )
    # A printed rate may be rounded to 0.
    sure: Confidence = "possible" if logged.is_printed(group) else "certain"
    return Suspicion(_finding(group, "error", sure, f"The learning rate is {now} {since}", facts, cause, fix))


def _moves(evidence: Evidence, group: RankGroup) -> bool:
    """Return whether the training loss has changed since the beginning: then a rate of 0 is a small one that was rounded."""
    found = only_loss(evidence, group)
    values = evidence.series(logged.run_id(group), found[0].rank, found[1]).values if found is not None else ()
    quarter = len(values) // 4
    if quarter == 0:
        return True
    first, now = units.mean(values[:quarter]), units.mean(values[-quarter:])
    return not abs(now - first) <= BAND * abs(first)


def _same(evidence: Evidence, group: RankGroup, rank: Rank, name: str, series: PointSeries) -> Judgement:
    printed = logged.is_printed(group)
    stretches = [len(list(values)) for _, values in groupby(series.values)] if printed else []
    number = max(SAME_VALUES, REDRAWN_TIMES * max(stretches[:-1], default=0))
    newest = series.values[-number:]
    if (
        len(newest) < number
        or min(newest) != max(newest)
        or (newest[0] == 0 and _converged(evidence, group, rank, name, series))
    ):
        return None
    rounded = newest[0] == 0 or printed
    where = f"{logged.source(group)}: {name}"
    title = f"The last {number} losses are all {units.metric(newest[0])}"
    facts = [
        Fact(
            f"steps {units.count(series.steps[-number])} to {units.count(series.steps[-1])}: equal to the last digit",
            newest[0],
            where,
        )
    ]
    cause = (
        "Even a run that no longer learns sees different batches. Equal losses mean that the weights or the data have no "
        "effect on the loss."
    )
    confidence: Confidence = "possible" if rounded else "likely"
    return Suspicion(_finding(group, "warning", confidence, title, facts, cause, _CHECK), 10.0)


def _converged(evidence: Evidence, group: RankGroup, rank: Rank, name: str, series: PointSeries) -> bool:
    """Return whether a loss that is 0 fell to it: it was small before, and not at the start."""
    stretches = evidence.levels(logged.run_id(group), rank.rank, name).stretches
    before = next((value for value in reversed(series.values) if value), None)
    small = [stretch.mean for stretch in stretches if stretch.mean]
    low = small[-1] if before is None and small else before
    return bool(stretches) and low is not None and abs(low) <= CONVERGED * abs(stretches[0].mean)


def _flat_by_epochs(evidence: Evidence, group: RankGroup, rank: Rank, name: str, series: PointSeries) -> Judgement:
    """Judge a run that reports once an epoch: neither its loss nor that of the evaluation has ever moved."""
    evaluated = next((item for item in sorted(rank.metrics) if "loss" in item.lower() and _HELD_OUT.search(item)), None)
    other = evidence.series(logged.run_id(group), rank.rank, evaluated) if evaluated is not None else PointSeries()
    reports = min(len(series), len(other))
    band = FLAT_SHARE if reports >= FLAT_VALUES else NARROW
    if not series or not all(map(math.isfinite, (*series.values, *other.values))):
        return None
    seen = series.steps[0] <= max(_SEEN_FROM_STEP, SEEN_SHARE * series.steps[-1])
    flat = reports >= FEW_VALUES and _stays_within(series.values, band) and _stays_within(other.values, band)
    flat = flat or _is_flat_after_the_first(series.values, other.values)
    level = _is_level(series.values) and (len(other) < 2 or _stays_within(other.values, FLAT_SHARE))
    if not seen or not (flat or level):
        return None
    where = f"{logged.source(group)}: {name}, {evaluated}"
    now = units.mean(series.values[-STRETCHES_MIN:])
    title = f"The loss is where it began after {len(series)} reports: {units.metric(now)}"
    if not flat:
        title = f"After its first reports, the loss has not moved in {len(series) - len(series) // 5}: {units.metric(now)}"
    facts = [
        Fact(f"{name} was {units.metric(series.values[0])} at first, and is {units.metric(now)} now", now, where),
        *(
            [Fact(f"{evaluated} never left a band of {band:.1%} either", len(other), where)]
            if len(other) >= FEW_EVALUATIONS
            else []
        ),
    ]
    cause = (
        "The steps change nothing, or too much: the model gives the same answer to every input, as with a rate far too high."
    )
    return Suspicion(_finding(group, "warning", "possible", title, facts, cause, _CHECK), 10.0)


def _stays_within(values: Sequence[float], band: float) -> bool:
    return max(values) - min(values) <= band * abs(values[0])


def _is_flat_after_the_first(values: Sequence[float], evaluated: Sequence[float]) -> bool:
    """Return whether all evaluations are alike, and the training's loss, too, once its first reports are over.

    Those may still fall to what the frequencies of the answers alone give.
    """
    if len(evaluated) < FEW_EVALUATIONS or len(values) < LOSSES_MIN or not _stays_within(evaluated, NARROW):
        return False
    later = values[len(values) // 5 :]
    return _stays_within(later, FLAT_SHARE) and abs(values[0] - later[-1]) <= FLAT_BAND * abs(values[0])


def _is_level(values: Sequence[float]) -> bool:
    """Return whether no report has left the level to which the first ones came: a loss that still learns is noisier."""
    return len(values) >= LOSSES_MIN and _stays_within(values[len(values) // 5 :], LEVEL)


def _flat(evidence: Evidence, group: RankGroup, rank: Rank, name: str, series: PointSeries) -> Judgement:
    stretches = evidence.levels(logged.run_id(group), rank.rank, name).stretches
    if not series or len(stretches) < 2 * STRETCHES_MIN or stretches[0].step > _SEEN_FROM_STEP:
        return None
    steps = series.steps[-1] - stretches[0].step
    parts = _parts_of(stretches)
    start, now = parts[0][0], units.mean([mean for mean, _ in parts[len(parts) // 2 :]])
    before = units.mean([mean for mean, _ in parts[: len(parts) // 2]])
    middle = units.mean([mean for mean, _ in parts])
    widest = max(abs(mean - middle) for mean, _ in parts)
    error = units.mean([error for _, error in parts])
    fallen = before - now - error
    if (
        steps < FLAT_STEPS
        or fallen > FLAT_SHARE * abs(middle)
        or widest > FLAT_BAND * abs(middle)
        or error > FLAT_ERROR * abs(middle)
    ):
        return None
    where = f"{logged.source(group)}: {name}"
    title = f"The loss is where it began after {units.count(steps)} steps: {units.metric(now)}"
    facts = [
        Fact(
            f"about {units.metric(start)} at step {units.count(stretches[0].step)}, {units.metric(now)} now",
            now,
            where,
        ),
        Fact(f"the mean of each eighth of that is within {units.metric(widest)} of {units.metric(middle)}", widest, where),
    ]
    cause = "The steps change little or nothing, the labels do not match the data, or the model cannot get any better."
    return Suspicion(_finding(group, "info", "possible", title, facts, cause, _CHECK), 10.0)


def _parts_of(stretches: Sequence[Stretch]) -> list[tuple[float, float]]:
    """Return the mean of each eighth of a course, and its standard error."""
    bounds = [place * len(stretches) // STRETCHES_MIN for place in range(STRETCHES_MIN + 1)]
    found = []
    for first, end in pairwise(bounds):
        means = [stretch.mean for stretch in stretches[first:end]]
        found.append((units.mean(means), statistics.pstdev(means) / math.sqrt(len(means))))
    return found


_CHECK = """\
print([(len(g["params"]), g["lr"]) for g in optimizer.param_groups])
print(sum(p.requires_grad for p in model.parameters()), "parameters train")
# and overfit ten samples: if the model cannot, it has a fault"""


def _finding(
    group: RankGroup, severity: Severity, confidence: Confidence, title: str, facts: Sequence[Fact], cause: str, fix: str
) -> Finding:
    refuted = "The weights were good before this run, or the loss is meant to stay constant here (a warm-up, frozen layers)."
    return tracked.about(group, "J03", severity, confidence, title, facts, cause, fix, refuted)
