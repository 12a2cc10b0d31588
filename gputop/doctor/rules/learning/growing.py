"""The loss grows: several times its lowest value, and as high as at the start (J02)."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections.abc import Sequence

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.learning.by_epochs import STEPS_WORSE, STEPS_WORSE_MIN, WORSE_MIN, WORSE_NOW, once_an_epoch
from gputop.doctor.rules.learning.by_epochs import WORSE as NEVER_BELOW
from gputop.doctor.rules.learning.diverging import (
    BOTH,
    HUGE,
    HUGE_MIN,
    HUGE_NORM,
    JUMPED,
    REPORTS_MAX,
    REPORTS_MIN,
    diverges,
)
from gputop.doctor.rules.learning.diverging import (
    JUMP as JUMPS_TO,
)
from gputop.doctor.rules.learning.exploding import BEYOND, BEYOND_ALL, BLOWN_UP, blows_up, explodes, times_text
from gputop.doctor.rules.learning.exploding import TIMES as EXPLODES
from gputop.doctor.rules.learning.exploding import VALUES_MIN as EXPLODING_MIN
from gputop.doctor.rules.learning.harder import FALLS, JUMP, JUMPS_MIN, gets_harder
from gputop.doctor.rules.learning.kept_gradients import with_cause
from gputop.doctor.rules.learning.leaping import EPOCHS_BEFORE, EPOCHS_SINCE, FROM, GROWN, STAYS, STEPS_MIN, TO, leaps
from gputop.doctor.rules.learning.leaping import TIMES as LEAPS
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.only_loss import STRETCHES_MIN, only_loss
from gputop.doctor.rules.support.rule import RARELY_S, Judgement, Rule, Suspicion, case
from gputop.history.points import PointSeries
from gputop.levels import Stretch
from gputop.losses import may_rise
from gputop.snapshot import Rank

NEWEST = 20
"""The median of this many newest losses is the current loss: a spike of a few steps does not change it."""
FEW = 80
RISES_MIN = 6
"""Of fewer than ``FEW`` losses, the newest ones that only rise are the current ones, if there are at least this many: more
would reach back to the beginning, and noise seldom rises this often in a row (our choice)."""
GROWN_FROM_BEST = 3.0
STEADY_RISES, GROWN_STEADILY = 12, 2.0
"""If this many of the newest losses only rise, it is not noise: then this many times the lowest is enough, for example where
the loss of a language model, which is never far from its limit, diverges (our choice)."""
GROWN_FROM_START = 1.5
BACK_AT_START = 0.9
BEGIN = 3
"""The loss began at its first average, or at the mean of this many, if that is higher: where tasks take turns, the first
printed loss may be that of the easiest one (our choice)."""
LEARNED = 0.7
"""A run has learned something once its loss has been at or below this share of its initial loss."""
LEARNED_SOME, WORSE = 0.8, 1.2
"""Or the newest losses are above the initial one, and their median is this many times it, after a loss at or below this share
of it: a model that knows nothing would be better (our choice)."""
RISING_MIN, RISING_PARTS, RISEN_AMONG, RISEN = 40, 4, 8, 1.5
"""Of at least ``RISING_MIN`` losses in ``RISEN_AMONG`` parts, each of the ``RISING_PARTS`` or more since the lowest is higher
than the one before, and the last is ``RISEN`` times the lowest (our choice)."""
STAYS_UP, NO_FALL = 1.8, 0.97
"""Or the last is this many times it, and none is below this share of the one before: it has risen, and stays there (our
choice)."""
EXPLODED = 10.0
FALLS_AGAIN = 0.7
FALLS_STRETCHES = 4
"""A loss that has fallen to this share of its peak, in this many averages without a rise of a tenth, recovers (our choice)."""
_TERM_WEIGHT = re.compile(
    r"(?i)(?:^|[/_.])(?:beta|lambda|lam|coeff?|anneal\w*|(?:kl|kld|reg|aux|adv|gp|rec|penalty|consistency|ramp)_?(?:w|weight|scale))(?:[/_.]|$)"
)
"""Names of the weight of a loss's term: while a script raises it, the loss grows on purpose."""
_CONTRASTS = re.compile(r"(?i)contrast|info_?nce|nt_?xent|moco|byol|dino|simsiam")
"""Names of losses whose targets come from the model's own past."""
BACK_TO, BACK_SHARE = 1.5, 0.2
"""A loss that is at most this many times its lowest average in this share of the newest steps comes back to it, for example
where tasks take turns (our choice)."""
RETURNS_MIN = 2
"""The averages must have come back to the lowest this many times, from nearly as high as now, for a loss of tasks that take
turns in longer blocks. A divergence may have one spike before it (our choice)."""
CREEPS, CREEPS_TO = 1.5, 50.0
"""If the loss of an epoch is never this many times that of the epoch before, it creeps upward: a script makes the task harder
bit by bit, to ``CREEPS_TO`` times the lowest at most. Steps that overshoot ruin a model within a few (our choice)."""
ROUNDS_MIN = 2
ROUNDS_SHARE = 0.8
"""The steps must have restarted this many times, and in this share of the rounds the loss must jump and fall (our choice)."""
ACTS_STEPS = 40
ACTS_SHARE = 0.5
"""An agent calls its model without gradients between most of its steps, to act or for the next target; validation does so
between few (our choice)."""


def loss_grows(evidence: Evidence, group: RankGroup) -> Judgement:
    """J02: the loss is several times its lowest value, and as high as at the start or higher, or beyond all measure."""
    return _grows(evidence, group) or blows_up(evidence, group)


def _grows(evidence: Evidence, group: RankGroup) -> Judgement:
    found = only_loss(evidence, group)
    if found is None or may_rise(found[1]):
        return explodes(evidence, group)
    rank, name = found
    levels, series = (
        evidence.levels(logged.run_id(group), rank.rank, name),
        evidence.series(logged.run_id(group), rank.rank, name),
    )
    stretches = levels.stretches
    newest = _newest(series.values)
    is_short = len(series) <= REPORTS_MAX and not _is_intended(evidence, group, rank, name, series)
    few = diverges(evidence, group, rank, name) if is_short else None
    if newest is None and not _raises_a_term(evidence, group, rank) and _CONTRASTS.search(name) is None:
        by_epochs = once_an_epoch(series, evidence.series(logged.run_id(group), rank.rank, "epoch"))
        return leaps(group, name, series, by_epochs) or few
    if len(stretches) < STRETCHES_MIN or newest is None or levels.lowest <= 0:
        return few
    start, best = stretches[0], min(stretches, key=lambda stretch: stretch.mean)
    now = statistics.median(newest)
    began = max(start.mean, units.mean([stretch.mean for stretch in stretches[:BEGIN]]))
    steadily = _only_rise(series.values[-STEADY_RISES:], STEADY_RISES)
    learned = best.mean <= LEARNED * began
    # What a run had learned is lost, however little that is of a loss that is the logarithm of something.
    unlearned = learned and now >= began and min(newest) >= BACK_AT_START * began
    unlearned = unlearned or _rises_steadily(series.values)
    unlearned = unlearned or (best.mean <= LEARNED_SOME * began and min(newest) >= began and now >= WORSE * began)
    grown_from_best = now >= (GROWN_STEADILY if steadily else GROWN_FROM_BEST) * best.mean
    if not unlearned and (not grown_from_best or now < BACK_AT_START * began):
        return few
    grown = now >= EXPLODED * began or (learned and now >= GROWN_FROM_START * began)
    intended = (
        _is_intended(evidence, group, rank, name, series)
        or _comes_back(newest, best.mean)
        or _takes_turns(stretches, best.mean, now)
        or _creeps(series, evidence.series(logged.run_id(group), rank.rank, "epoch"))
    )
    sure = grown and not intended and not _falls_again(stretches)
    # The lowest average of losses that explode may hold one of them.
    lowest = best.mean if levels.lowest * EXPLODED > best.mean else levels.lowest
    title = f"The loss has grown to {units.metric(now)}, {times_text(now / lowest)} times its lowest"
    where = f"{logged.source(group)}: {name}"
    facts = [
        Fact(f"the median of the newest {len(newest)} losses is {units.metric(now)}", now, where),
        Fact(
            f"about {units.metric(start.mean)} at step {units.count(start.step)}, where it began",
            start.mean,
            where,
        ),
        Fact(f"about {units.metric(lowest)} from step {units.count(best.step)}, at its lowest", lowest, where),
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
    return with_cause(group, Suspicion(finding, 5.0 if sure else 10.0))


J02 = Rule(
    id="J02",
    order=1706,
    family="learning",
    title="The loss grows",
    from_printed=True,
    severities=("error", "warning"),
    confidences=("likely", "possible"),
    needs=("journal: loss since the run began, else its files or output",),
    every_s=RARELY_S,
    threshold=(
        case(
            "The loss grows",
            f"the median of the newest {NEWEST} losses (of fewer than {FEW}, of the newest {RISES_MIN}, if those only rise) "
            f"is {GROWN_FROM_BEST:g} times the lowest average ({GROWN_STEADILY:g} if {STEADY_RISES} only rise) and "
            f"{EXPLODED:g} times the first, or {GROWN_FROM_START:g} times the first after the run had learned; of the mean of "
            f"the first {BEGIN}, if that is higher",
            "however few times the lowest it is, that median is the first or higher, and none of the newest losses is below "
            f"{BACK_AT_START:g} times the first, though the loss had been below {LEARNED:.0%} of it",
            f"this is likely, unless the model is called without gradients between {ACTS_SHARE:.0%} of the steps, as in "
            "reinforcement learning, the run logs the growing weight of a term, its steps restart in each round, or the loss "
            f"has fallen steadily to {FALLS_AGAIN:.0%} of its peak",
            "nor is it likely if a module like the model that is not trained (a teacher, a target network) is called in most "
            "steps, or the loss is called contrastive",
            "nor is it likely if the run states a level, a stage or a task that has risen, and the loss grows where one "
            f"begins; or if the loss has jumped {JUMPS_MIN} times, to {JUMP:g} times what it was, and fallen to {FALLS:.0%} "
            "in between",
            f"nor if {BACK_SHARE:.0%} of the newest {NEWEST} losses are at most {BACK_TO:g} times the lowest average, or the "
            f"averages have come back to that {RETURNS_MIN} times; or if there is one for each epoch, none since the lowest "
            f"is {CREEPS:g} times the one before, and the newest at most {CREEPS_TO:g} times it",
        ),
        case(
            "The loss may be growing",
            f"that median is {BACK_AT_START:g} times the first (possible)",
            f"that median is {WORSE:g} times the first, and none of the newest losses is below the first, though the loss had "
            f"been below {LEARNED_SOME:.0%} of it (possible)",
            f"of {RISEN_AMONG} parts of {RISING_MIN} or more losses, each of the {RISING_PARTS} or more since the lowest is "
            f"higher than the one before, and the last {RISEN:g} times it, or {STAYS_UP:g} times and none falls (possible)",
            f"with one loss for each epoch, none of {WORSE_MIN} or more is below {NEVER_BELOW:g} times the first, and those "
            f"of the second half are {WORSE_NOW:g} times it on average; or, from the start on, none of {STEPS_WORSE_MIN} or "
            f"more means is below {STEPS_WORSE:g} times the first (possible)",
        ),
        case(
            "The loss grows in a few reports",
            f"of at most {REPORTS_MAX} losses, the newest {REPORTS_MIN} or more are {JUMPED:g} times the first, since one "
            f"that is {JUMPS_TO:g} times the one before; or the newest is {BOTH:g} times the first, and that of the "
            f"evaluation, too; or {HUGE_MIN} or more are above {HUGE:,.0f} with gradient norms above {HUGE_NORM:,.0f}, and do "
            "not fall (possible)",
            f"in shorter logs, the loss of {STEPS_MIN} steps or more up to the newest is {LEAPS:,.0f} times everything "
            f"before, which came to {FROM:g} or more, and {TO:,.0f} or more; or that of {EPOCHS_SINCE} or more epochs "
            f"{GROWN:g} times that of at least {EPOCHS_BEFORE} before, and the last is {STAYS:.0%} of the highest (possible)",
        ),
        case(
            "The loss explodes",
            f"the newest printed value of a loss is {BLOWN_UP:.0e} times the first or 1, and {BEYOND:.0e} or more, or "
            f"{BEYOND_ALL:.0e} or more (likely, or possible)",
            f"the newest quarter of {EXPLODING_MIN} or more values of any loss is {EXPLODES:,.0f} times the first (likely)",
        ),
        case(
            "Which losses count",
            "only for a run with a single loss, or the sum of its losses, that is always positive and is not called an "
            "objective",
        ),
    ),
    estimated=True,
    mechanism="A step that is too large makes the next gradients larger, and the next steps larger still. Or gradients "
    "accumulate across steps, because nothing zeroes them.",
    signature="The loss falls, then rises above its initial value, or it rises from the start.",
    look_alike="A spike that passes; a curriculum; the weight of a term that is raised on purpose; reinforcement learning and "
    "adversarial losses, whose target moves; an objective that is maximized.",
    fix="Clip the gradients, lower the learning rate or lengthen the warm-up, and continue from an earlier checkpoint.",
    judge=loss_grows,
)


def _is_intended(evidence: Evidence, group: RankGroup, rank: Rank, name: str, series: PointSeries) -> bool:
    """Return whether what the run does besides explains that its loss grows."""
    return (
        _restarts_in_rounds(series)
        or _raises_a_term(evidence, group, rank)
        or _acts_between_steps(evidence, group, rank)
        or _has_twin(rank)
        or _CONTRASTS.search(name) is not None
        or gets_harder(evidence, group, rank, series)
    )


def _newest(values: Sequence[float]) -> list[float] | None:
    """Return the losses whose median is the current one; None if there are too few."""
    if len(values) < FEW and _only_rise(values[-RISES_MIN:]):
        return list(values[-RISES_MIN:])
    newest = [value for value in values[-NEWEST:] if math.isfinite(value)]
    return newest if len(newest) == NEWEST else None


def _only_rise(values: Sequence[float], number: int = RISES_MIN) -> bool:
    return len(values) == number and all(before < after < math.inf for before, after in itertools.pairwise(values))


def _acts_between_steps(evidence: Evidence, group: RankGroup, rank: Rank) -> bool:
    """Return whether the model runs without gradients between most steps: it acts, and what it sees depends on it."""
    steps = evidence.series(group.run_id, rank.rank, "step_s").steps[-ACTS_STEPS:]
    if len(steps) < ACTS_STEPS:
        return False
    between = set(evidence.series(group.run_id, rank.rank, "phase/evaluation").steps)
    return sum(step in between for step in steps) >= ACTS_SHARE * len(steps)


def _has_twin(rank: Rank) -> bool:
    """Return whether a teacher, a momentum encoder or a target network follows the model: the loss chases a moving target."""
    model = facts_of(rank).model
    return model is not None and bool(model.has_twin)


def _rises_steadily(values: Sequence[float]) -> bool:
    """Return whether the losses since the lowest have risen from part to part, to ``RISEN`` times it."""
    parts = _means_of(values, RISEN_AMONG) if len(values) >= RISING_MIN else []
    if not parts or min(parts) <= 0:
        return False
    since = parts[parts.index(min(parts)) :]
    pairs = list(itertools.pairwise(since))
    rises = all(before < after for before, after in pairs)
    stays_up = since[-1] >= STAYS_UP * since[0] and all(after >= NO_FALL * before for before, after in pairs)
    return len(since) >= RISING_PARTS and ((rises and since[-1] >= RISEN * since[0]) or stays_up)


def _means_of(values: Sequence[float], number: int) -> list[float]:
    return [units.mean(values[at * len(values) // number : (at + 1) * len(values) // number]) for at in range(number)]


def _restarts_in_rounds(series: PointSeries) -> bool:
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


def _comes_back(newest: Sequence[float], best: float) -> bool:
    return sum(value <= BACK_TO * best for value in newest) >= BACK_SHARE * len(newest)


def _takes_turns(stretches: Sequence[Stretch], best: float, now: float) -> bool:
    """Return whether the loss has gone up and come back before, more than once."""
    returns, is_high = 0, False
    for stretch in stretches:
        if stretch.mean >= now / BACK_TO:
            is_high = True
        elif is_high and stretch.mean <= BACK_TO * best:
            returns, is_high = returns + 1, False
    return returns >= RETURNS_MIN


def _creeps(series: PointSeries, epochs: PointSeries) -> bool:
    """Return whether there is one loss for each epoch, and it has grown by small parts since its lowest value."""
    if not once_an_epoch(series, epochs):
        return False
    values = series.values
    lowest = min(range(len(values)), key=values.__getitem__)
    return values[-1] <= CREEPS_TO * values[lowest] and all(
        after < CREEPS * before for before, after in itertools.pairwise(values[lowest:]) if before > 0
    )


def _raises_a_term(evidence: Evidence, group: RankGroup, rank: Rank) -> bool:
    """Return whether the weight of a term of the loss, which the run logs too, is larger than at first."""
    for name in filter(_TERM_WEIGHT.search, rank.metrics):
        values = evidence.series(logged.run_id(group), rank.rank, name).values
        if values and values[-1] > values[0] >= 0:
            return True
    return False
