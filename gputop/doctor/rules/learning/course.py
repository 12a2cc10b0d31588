"""The course of the loss over the whole run: it grows without bound (J02), or does not change (J03)."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections.abc import Sequence
from itertools import groupby

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.levels import Stretch
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Confidence, Fact, Finding, Severity
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.rule import RARELY_S, Judgement, Rule, Suspicion
from gputop.history.points import PointSeries
from gputop.losses import may_rise, short_losses
from gputop.snapshot import AUTOMATIC_PREFIX, Rank, is_training_loss, loss_metric, names_a_loss, own_or_automatic

NEWEST = 20
"""The median of this many newest losses is the current loss: a spike of a few steps does not change it."""
STRETCHES_MIN = 8
"""A course with fewer averages is too short to judge (our choice)."""
GROWN_FROM_BEST = 3.0
GROWN_FROM_START = 1.5
BACK_AT_START = 0.9
LEARNED = 0.7
"""A run has learned something once its loss has been at or below this share of its initial loss."""
EXPLODED = 10.0
ZERO_RATE_STEPS = 50
"""A schedule may end at 0 with the last step of a run, but this many steps at 0 are a mistake."""
VANISHED_RATE = 1e-15
"""A step of this rate changes no weight in float32, which keeps seven digits. A cosine schedule that ends at 0 is below it in
its last steps only."""
SAME_VALUES = 100
REDRAWN_TIMES = 3
"""A progress bar repeats a loss until the script sets the next one. A stretch this many times as long as the longest such one
is no repetition (our choice)."""
CONVERGED = 0.02
"""A loss that was below this share of its initial value before it became 0 has converged; a print rounds it (our choice)."""
FLAT_VALUES = 40
"""This many values of the loss, and as many of an evaluation, are a course even if they come once an epoch (our choice)."""
FLAT_STEPS = 500
FLAT_SHARE = 0.01
FLAT_BAND = 0.05
"""A loss is flat if it ends within 1% of where it began and its averages never left a band of 5% around that (our choice)."""
FALLS_AGAIN = 0.7
FALLS_STRETCHES = 4
"""A loss that has fallen to this share of its peak, in this many averages without a rise of a tenth, recovers (our choice)."""
_SEEN_FROM_STEP = 50
_RATE = re.compile(r"^lr(?:/|$)|(?:^|/)(?:lr|learning_rate)$")
"""Frameworks' names for the learning rate: lr, one per parameter group (lr/0), or Transformers' learning_rate."""
_TOTAL = re.compile(r"(?i)(?:train(?:ing)?[/_])?(?:loss|total_?loss|loss[/_]total)")
"""The sum of a task's losses, as detectors and speech models log it next to its parts."""
_HELD_OUT = re.compile(r"(?i)(?:^|[/_.-])(?:val|valid|validation|eval|evaluation|test|dev)(?:[/_.-]|$)")
"""Names of what is measured on data that is not trained on."""
_OPPOSED = re.compile(
    r"(?i)(?:^|[/_.\d-])(?:d|g|dis|disc|discriminator|gen|generator|adv\w*|fake|real|critic|actor|policy|value|vf|pg|q\d?|alpha)(?:[/_.\d-]|$)"
)
"""Parts of losses whose target moves with the model."""
_TERM_WEIGHT = re.compile(
    r"(?i)(?:^|[/_.])(?:beta|lambda|lam|coeff?|anneal\w*|(?:kl|kld|reg|aux|adv|gp|rec|penalty|consistency|ramp)_?(?:w|weight|scale))(?:[/_.]|$)"
)
"""Names of the weight of a loss's term: while a script raises it, the loss grows on purpose."""
_PENALTY = re.compile(r"(?i)(?:^|[/_.-])kld?(?:[/_.-]|$)")
"""A distance from another model or a prior: it is 0 at the start, and grows as the model learns."""
_REWARDS = ("reward", "return", "episod")
"""If the target moves with the policy, a loss that grows or stays the same says nothing."""
ROUNDS_MIN = 2
ROUNDS_SHARE = 0.8
"""So many times the steps must have begun anew, and in this share of the rounds the loss must jump and fall (our choice)."""
ACTS_STEPS = 40
ACTS_SHARE = 0.5
"""An agent calls its model without gradients between most of its steps, to act or for the next target; validation does so
between few (our choice)."""


def loss_grows(evidence: Evidence, group: RankGroup) -> Judgement:
    """J02: the loss is several times its lowest value, and as high as at the start or higher."""
    found = _only_loss(group)
    if found is None or may_rise(found[1]):
        return None
    rank, name = found
    levels, series = (
        evidence.levels(logged.run_id(group), rank.rank, name),
        evidence.series(logged.run_id(group), rank.rank, name),
    )
    if len(levels.stretches) < STRETCHES_MIN or len(series) < NEWEST or levels.lowest <= 0:
        return None
    start, best = levels.stretches[0], min(levels.stretches, key=lambda stretch: stretch.mean)
    newest = [value for value in series.values[-NEWEST:] if math.isfinite(value)]
    if len(newest) < NEWEST:
        return None
    now = statistics.median(newest)
    if now < GROWN_FROM_BEST * best.mean or now < BACK_AT_START * start.mean:
        return None
    learned = best.mean <= LEARNED * start.mean
    grown = now >= EXPLODED * start.mean or (learned and now >= GROWN_FROM_START * start.mean)
    intended = _begins_anew(series) or _raises_a_term(evidence, group, rank) or _acts_between_steps(evidence, group, rank)
    sure = grown and not intended and not _falls_again(levels.stretches)
    times = now / best.mean
    title = (
        f"The loss has grown to {units.metric(now)}, {f'{times:.1f}' if times < 100 else units.count(times)} times its lowest"
    )
    where = f"{logged.source(group)}: {name}"
    facts = [
        Fact(f"the median of the newest {NEWEST} losses is {units.metric(now)}", now, where),
        Fact(
            f"about {units.metric(start.mean)} at step {units.count(start.step)}, where it began",
            start.mean,
            where,
        ),
        Fact(f"about {units.metric(best.mean)} from step {units.count(best.step)}, at its lowest", best.mean, where),
    ]
    finding = tracked.about(
        group,
        "J02",
        "error" if sure else "warning",
        "likely" if sure else "possible",
        title,
        facts,
        "The steps overshoot: the learning rate is too high at this point of the run, or the gradients of a few batches "
        "are far larger than usual.",
        "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # before optimizer.step()\n"
        f"# continue from a checkpoint near step {units.count(best.step)}, with a lower learning rate or a longer warm-up",
        "The task became harder on purpose (a curriculum, another data set), or the target moves with the model.",
    )
    return Suspicion(finding, 5.0 if sure else 10.0)


J02 = Rule(
    id="J02",
    order=1705,
    family="learning",
    title="The loss grows",
    severities=("error", "warning"),
    confidences=("likely", "possible"),
    needs=("journal: loss since the run began, else its files or output",),
    every_s=RARELY_S,
    threshold=(
        f"the median of the newest {NEWEST} losses is {GROWN_FROM_BEST:g} times the lowest average and {EXPLODED:g} times the "
        f"first, or {GROWN_FROM_START:g} times the first after the run had learned",
        f"this is likely, unless the model is called without gradients between {ACTS_SHARE:.0%} of the steps, as in "
        "reinforcement learning, the run logs the growing weight of a term, its steps begin anew in each round, or the loss "
        f"has fallen steadily to {FALLS_AGAIN:.0%} of its peak",
        f"that median is {BACK_AT_START:g} times the first (possible)",
        "only for a run with a single loss, or the sum of its losses, that is always positive and is not called an objective",
    ),
    estimated=True,
    mechanism="A step that is too large makes the next gradients larger, and the next steps larger still.",
    signature="The loss falls, then rises above its initial value, or it rises from the start.",
    look_alike="A spike that passes; a curriculum; the weight of a term that is raised on purpose; reinforcement learning and "
    "adversarial losses, whose target moves; an objective that is maximized.",
    fix="Clip the gradients, lower the learning rate or lengthen the warm-up, and continue from an earlier checkpoint.",
    judge=loss_grows,
)


def loss_stays(evidence: Evidence, group: RankGroup) -> Judgement:
    """J03: the learning rate is 0, the loss is always the same, or it is back where it began after hundreds of steps."""
    found = _only_loss(group)
    if found is None:
        return None
    rank, name = found
    idle = _no_rate(evidence, group, rank)
    if idle is not None:
        return idle
    series = evidence.series(logged.run_id(group), rank.rank, name)
    return (
        _same(evidence, group, rank, name, series)
        or _flat(evidence, group, rank, name, series)
        or _flat_by_epochs(evidence, group, rank, name, series)
    )


J03 = Rule(
    id="J03",
    order=1706,
    family="learning",
    title="The run does not learn",
    severities=("error", "warning", "info"),
    confidences=("certain", "likely", "possible"),
    needs=("journal: loss since the run began and learning rate, else its files or output",),
    every_s=RARELY_S,
    threshold=(
        f"every learning rate is below {VANISHED_RATE:g} for {ZERO_RATE_STEPS} steps (certain)",
        f"{SAME_VALUES} losses are equal to the last digit (likely); 0 does not count if the loss was below {CONVERGED:.0%} of "
        "its initial value before",
        f"printed values may be rounded: then both are only possible (and {REDRAWN_TIMES} times as many losses as were ever "
        "equal before)",
        f"after {FLAT_STEPS} steps the loss is within {FLAT_SHARE:.0%} of its initial value and never left a band of "
        f"{FLAT_BAND:.0%} (possible)",
        f"neither {FLAT_VALUES} reports of the loss nor those of an evaluation's left a band of {FLAT_SHARE:.0%} (possible)",
    ),
    estimated=True,
    mechanism=(
        "The steps change nothing: the learning rate is 0, the parameters are frozen or are not in the optimizer, the loss "
        "is detached from the model, or the data contains nothing to learn."
    ),
    signature="The loss is constant, or stays where it began, while the GPUs work.",
    look_alike="Fine-tuning of weights that are already good; a warm-up with tiny rates; a loss that has reached exactly 0.",
    fix="Check the learning rate, requires_grad, and that the optimizer has this model's parameters.",
    judge=loss_stays,
)


def _only_loss(group: RankGroup) -> tuple[Rank, str] | None:
    """Return the lowest live rank and its training loss; None if it logs rewards, or several losses that have no sum."""
    ranks = logged.ranks_of(group)
    if not ranks:
        return None
    rank = min(ranks, key=lambda item: item.rank)
    name = loss_metric(rank.metrics)
    # In a run that the script opened, the automatic loss appears next to the script's own; it counts only if there is no other.
    losses = {metric for metric in rank.metrics if names_a_loss(metric)}
    own = {metric for metric in losses if not metric.startswith(AUTOMATIC_PREFIX)} or losses
    own = own or short_losses(rank.metrics)
    rewarded = any(word in metric.lower() for metric in rank.metrics for word in _REWARDS)
    if rewarded or name is None:
        return None
    if len(own) > 1:
        total = next((metric for metric in sorted(own) if _TOTAL.fullmatch(metric)), None)
        opposed = any(_OPPOSED.search(metric) for metric in own)
        return (rank, total) if total is not None and not opposed else None
    return (rank, name) if is_training_loss(name) and _PENALTY.search(name) is None else None


def _acts_between_steps(evidence: Evidence, group: RankGroup, rank: Rank) -> bool:
    """Return whether the model runs without gradients between most steps: it acts, and what it sees depends on it."""
    steps = evidence.series(group.run_id, rank.rank, "step_s").steps[-ACTS_STEPS:]
    if len(steps) < ACTS_STEPS:
        return False
    between = set(evidence.series(group.run_id, rank.rank, "phase/evaluation").steps)
    return sum(step in between for step in steps) >= ACTS_SHARE * len(steps)


def _begins_anew(series: PointSeries) -> bool:
    """Return whether the steps restart repeatedly, and the loss jumps and falls each time: a new model for each round."""
    begins = [0, *(at for at in range(1, len(series)) if series.steps[at] < series.steps[at - 1])]
    if len(begins) <= ROUNDS_MIN:
        return False
    rounds = [series.values[begin:end] for begin, end in zip(begins, [*begins[1:], len(series)], strict=True)]
    falls = sum(values[-1] < values[0] for values in rounds[:-1]) / len(rounds[:-1])
    jumps = sum(after[0] > before[-1] for before, after in itertools.pairwise(rounds)) / (len(rounds) - 1)
    return min(falls, jumps) >= ROUNDS_SHARE


def _falls_again(stretches: Sequence[Stretch]) -> bool:
    """Return whether the loss has fallen steadily since its peak, as after a jump to a harder task or other data."""
    peak = max(range(len(stretches)), key=lambda place: stretches[place].mean)
    since = [stretch.mean for stretch in stretches[peak:]]
    steady = all(after <= 1.1 * before for before, after in itertools.pairwise(since))
    return len(since) >= FALLS_STRETCHES and steady and since[-1] <= FALLS_AGAIN * since[0]


def _raises_a_term(evidence: Evidence, group: RankGroup, rank: Rank) -> bool:
    """Return whether the weight of a term of the loss, which the run logs too, is larger than at first."""
    for name in filter(_TERM_WEIGHT.search, rank.metrics):
        values = evidence.series(logged.run_id(group), rank.rank, name).values
        if values and values[-1] > values[0] >= 0:
            return True
    return False


def _no_rate(evidence: Evidence, group: RankGroup, rank: Rank) -> Judgement:
    automatic = (metric.removeprefix(AUTOMATIC_PREFIX) for metric in rank.metrics)
    names = sorted({own_or_automatic(item, rank.metrics) for item in automatic if _RATE.search(item)})
    rates = [evidence.series(logged.run_id(group), rank.rank, name).values[-ZERO_RATE_STEPS:] for name in names]
    if not rates or any(len(values) < ZERO_RATE_STEPS or max(map(abs, values)) > VANISHED_RATE for values in rates):
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
    if min(len(series), len(other)) < FLAT_VALUES or series.steps[0] > _SEEN_FROM_STEP:
        return None
    for values in (series.values, other.values):
        if not all(map(math.isfinite, values)) or max(values) - min(values) > FLAT_SHARE * abs(values[0]):
            return None
    where = f"{logged.source(group)}: {name}, {evaluated}"
    now = units.mean(series.values[-STRETCHES_MIN:])
    title = f"The loss is where it began after {len(series)} reports: {units.metric(now)}"
    facts = [
        Fact(f"{name} was {units.metric(series.values[0])} at first, and is {units.metric(now)} now", now, where),
        Fact(f"{evaluated} never left a band of {FLAT_SHARE:.0%} either", len(other), where),
    ]
    cause = (
        "The steps change nothing, or too much: the model gives the same answer to every input, as with a rate far too high."
    )
    return Suspicion(_finding(group, "warning", "possible", title, facts, cause, _CHECK), 10.0)


def _flat(evidence: Evidence, group: RankGroup, rank: Rank, name: str, series: PointSeries) -> Judgement:
    stretches = evidence.levels(logged.run_id(group), rank.rank, name).stretches
    if not series or len(stretches) < 2 * STRETCHES_MIN or stretches[0].step > _SEEN_FROM_STEP:
        return None
    steps = series.steps[-1] - stretches[0].step
    start, last = stretches[0].mean, stretches[-STRETCHES_MIN:]
    now = units.mean([stretch.mean for stretch in last])
    widest = max(abs(stretch.mean - start) for stretch in stretches)
    if steps < FLAT_STEPS or abs(now - start) > FLAT_SHARE * abs(start) or widest > FLAT_BAND * abs(start):
        return None
    where = f"{logged.source(group)}: {name}"
    title = f"The loss is where it began after {units.count(steps)} steps: {units.metric(now)}"
    facts = [
        Fact(
            f"about {units.metric(start)} at step {units.count(stretches[0].step)}, {units.metric(now)} now",
            now,
            where,
        ),
        Fact(f"on average never more than {units.metric(widest)} from its initial value", widest, where),
    ]
    cause = "The steps change little or nothing, the labels do not match the data, or the model cannot get any better."
    return Suspicion(_finding(group, "info", "possible", title, facts, cause, _CHECK), 10.0)


_CHECK = """\
print([(len(g["params"]), g["lr"]) for g in optimizer.param_groups])
print(sum(p.requires_grad for p in model.parameters()), "parameters train")
# and overfit ten samples: if the model cannot, it has a fault"""


def _finding(
    group: RankGroup, severity: Severity, confidence: Confidence, title: str, facts: Sequence[Fact], cause: str, fix: str
) -> Finding:
    refuted = "The weights were good before this run, or the loss is meant to stay constant here (a warm-up, frozen layers)."
    return tracked.about(group, "J03", severity, confidence, title, facts, cause, fix, refuted)
