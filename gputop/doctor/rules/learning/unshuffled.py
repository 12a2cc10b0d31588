"""The data is not shuffled: the loss falls while one class lasts, and jumps back at the next one (J04)."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from statistics import fmean, median
from typing import NamedTuple

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.only_loss import only_loss
from gputop.doctor.rules.support.rule import RARELY_S, Judgement, Rule, Suspicion
from gputop.snapshot import Rank

BEFORE, AFTER = 4, 3
"""How many losses before a jump and after it are compared, so that a single unusual batch does not count as a jump."""
JUMP = 3.0
"""All losses after a jump are at least this many times the mean before it (our choice)."""
BACK = 0.3
"""They are at least this share of the loss with which the run began: near 0, a small change is many times the loss."""
JUMPS_MIN = 5
"""A single jump, or a few, may be another phase of the training (our choice)."""
EPOCHS_MIN = 2
"""This many more passes over the data must have begun: a stream of data is passed once (our choice)."""
HELD_HOLD_S = 25.0
"""Of an untracked run, two looks at its variables must show it (our choice)."""
_IN_ORDER = re.compile(r"(?i)time|series|sequence|window|stream|forecast|token|text|trajector|episode|frame|video")
"""In the name of a data set whose order may be part of the task."""
FORGOTTEN, LEARNED = 3.0, 0.3
"""Times the mean of the first losses. A loss that jumps above the first one gives the right answer less probability than a new
model does; before, it was below the second (our choice)."""
SURE = ((1.1, 0.05), (0.3, 0.01))
"""Or it comes back less far, from lower: the model was sure of one answer, and has a worse one for the next part of the data
(our choice)."""
EVENLY = 0.2
"""The ways from jump to jump differ from the usual one, or from a multiple of it, by at most this share of it: where a training
is unstable, it jumps at any time. A jump in between may have been too small to count (our choice)."""
JUMPS_COARSE = 9
"""Where so few losses are printed that a jump may show a fifth of the way late, more jumps must be even (our choice)."""
REPEATED_MAX, REPEATS_MIN, REPEATED_WITHIN = 4, 2, 0.03
"""Up to this many jumps repeat, at least this many times after the first, over distances that differ by no more than this share
(our choice)."""
RISES = 2.0
"""A learning rate that rises to this many times itself explains jumps: a schedule with restarts."""


class _Saw(NamedTuple):
    """What the losses do: how often they jump, over how many steps, and from which to which value they usually do."""

    jumps: int
    steps: int
    low: float
    high: float


def not_shuffled(evidence: Evidence, group: RankGroup) -> Judgement:
    """J04: the sampler keeps the order of the data set, and the loss falls and jumps back again and again."""
    if group.run is None:
        return _held(evidence, group) or _forgets(evidence, group)
    found = only_loss(evidence, group)
    ranks = tracked.ranks_of(group)
    if found is None or not ranks:
        return None
    if all(map(_has_no_sampler, ranks)):
        return _forgets(evidence, group)
    if not all(map(_keeps_order, ranks)):
        return None
    rank, name = found
    if "training" in rank.metrics:
        return None  # another model begins each time, as in active learning
    begins = evidence.levels(group.run_id, rank.rank, name).stretches[:1]
    series = evidence.series(group.run_id, rank.rank, name)
    saw = _saw(series.steps, series.values, begins[0].mean) if begins else None
    if saw is None or saw.jumps < JUMPS_MIN or _restarts(evidence.series(group.run_id, rank.rank, "lr").values):
        return None
    sampler = facts_of(rank).sampler
    kind = sampler.type if sampler is not None else "sampler"
    finding = tracked.about(
        group,
        "J04",
        "warning",
        "likely",
        f"The data is not shuffled: the loss has jumped back {saw.jumps} times in {units.count(saw.steps)} steps",
        [
            Fact(
                f"the loss falls to about {units.metric(saw.low)}, then jumps to {units.metric(saw.high)}",
                saw.high,
                "journal: loss",
            ),
            Fact(f"{kind} yields the samples in the order of the data set", kind, "journal: sampler"),
        ],
        "Neighboring samples are alike: the files of a class, for example, are in one folder. While a class lasts, the model "
        "learns to answer with it, and forgets the others.",
        "DataLoader(dataset, batch_size=..., shuffle=True)\n"
        "# with several ranks: DistributedSampler(dataset, shuffle=True), and set_epoch in each epoch",
        "The order is part of the task, as in a time series whose state is passed on.",
    )
    return Suspicion(finding, 3.0)


def _held(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge an untracked process by its variables: the loader keeps the order, pass after pass. Its losses may confirm it.

    Of several ranks, C06 judges it.
    """
    process = group.members[0].process if len(group.members) == 1 and tracked.world(group) == 1 else None
    held = process.held if process is not None else None
    loader = held.loader if held is not None else None
    if process is None or loader is None or not loader.is_plain or loader.shuffles is not False or not evidence.trains(group):
        return None
    found = only_loss(evidence, group)
    saw = None
    if found is not None:
        rank, name = found
        begins = evidence.levels(logged.run_id(group), rank.rank, name).stretches[:1]
        series = evidence.series(logged.run_id(group), rank.rank, name)
        saw = _saw(series.steps, series.values, begins[0].mean) if begins else None
        if _restarts(evidence.series(logged.run_id(group), rank.rank, "lr").values):
            saw = None
    jumps = saw is not None and saw.jumps >= JUMPS_MIN
    begun = max(evidence.held.epochs_begun(process), _epochs_shown(evidence, group))
    if not jumps and (begun < EPOCHS_MIN or _IN_ORDER.search(loader.dataset)):
        return None
    facts = [
        Fact(
            f"{loader.name} yields {loader.dataset} in its order ({loader.sampler})", loader.sampler, f"/proc/{process.pid}/mem"
        )
    ]
    if saw is not None and jumps:
        text = f"the loss falls to about {units.metric(saw.low)}, then jumps to {units.metric(saw.high)}, {saw.jumps} times"
        facts.insert(0, Fact(text, saw.high, logged.source(group)))
    finding = tracked.about(
        group,
        "J04",
        "warning" if jumps else "info",
        "likely" if jumps else "possible",
        f"The data is not shuffled: {loader.name} yields the samples in the same order in each epoch",
        facts,
        "If neighboring samples are alike, as in a table that is sorted by class, each batch teaches the model one answer, and "
        "it forgets the others. If the data was shuffled before, its batches are still the same in each epoch.",
        "DataLoader(dataset, batch_size=..., shuffle=True)",
        "The data was shuffled when it was written, or its order is part of the task, as in a time series.",
    )
    return Suspicion(finding, HELD_HOLD_S)


def _epochs_shown(evidence: Evidence, group: RankGroup) -> int:
    """Return how many epochs the training has begun since its first one, by what it prints or logs."""
    epochs = [
        value
        for rank in logged.ranks_of(group)
        for value in evidence.series(logged.run_id(group), rank.rank, "epoch").values
        if math.isfinite(value)
    ]
    return int(epochs[-1]) - int(epochs[0]) if epochs else 0


def _forgets(evidence: Evidence, group: RankGroup) -> Judgement:
    """Judge a run whose loader, if it has one, is its own: by losses that jump far above the first one, evenly."""
    found = only_loss(evidence, group)
    if found is None or "training" in found[0].metrics:
        return None
    rank, name = found
    run = logged.run_id(group)
    begins = evidence.levels(run, rank.rank, name).stretches[:1]
    if not begins or _restarts(evidence.series(run, rank.rank, "lr").values):
        return None
    series = evidence.series(run, rank.rank, name)
    first = begins[0].mean
    far = _forgotten(series.values, LEARNED * first, FORGOTTEN * first)
    others = (_forgotten(series.values, low * first, high * first) for high, low in SURE)
    jumps = next((found for found in (far, *others) if _per_round(series.steps, found)), [])
    each = _per_round(series.steps, jumps)
    if not each:
        return None
    rounds = [series.steps[after] - series.steps[before] for before, after in zip(jumps, jumps[each:], strict=False)]
    low, high = min(series.values[jumps[0] : jumps[-1]]), median(series.values[at] for at in jumps)
    where_to = "far above" if jumps is far else "back towards"
    often = f" {each} times" if each > 1 else ""
    text = f"{len(jumps)} times, the loss has fallen as far as {units.metric(low)}, and then jumped to {units.metric(high)}"
    finding = tracked.about(
        group,
        "J04",
        "warning",
        "possible",
        f"Every {round(median(rounds))} steps, the loss jumps {where_to} its first values{often}: the data may not be shuffled",
        [
            Fact(text, high, logged.source(group)),
            Fact(
                f"its first {words.count(begins[0].count, 'value')} {words.agree(begins[0].count, 'was', 'were')} about "
                f"{units.metric(begins[0].mean)}",
                begins[0].mean,
                logged.source(group),
            ),
        ],
        "The model was sure of another answer: it learns one part of the "
        "data at a time, such as a class or a file, and forgets the parts before.",
        "random.shuffle(samples)  # all of them, in each epoch\n"
        "# a buffer that shuffles must hold several times what a file or a class has, or read several files in turn",
        "Tasks or clients are trained in turn on purpose.",
    )
    return Suspicion(finding, 3.0)


J04 = Rule(
    id="J04",
    order=1705,
    family="learning",
    title="The data is not shuffled",
    from_printed=True,
    severities=("warning", "info"),
    confidences=("likely", "possible"),
    needs=("journal: sampler, loader, and the loss of each step", "/proc: variables", "its files or output"),
    every_s=RARELY_S,
    threshold=(
        f"the sampler keeps the order, and the loss jumps {JUMPS_MIN} times: {AFTER} losses that are each {JUMP:g} times the "
        f"mean of the {BEFORE} before them, and {BACK:.0%} of the loss at the start",
        f"untracked, the variables of a single process show such a loader for {HELD_HOLD_S:g} s: with such jumps (likely), or "
        f"after {EPOCHS_MIN} more epochs have begun (possible, info)",
        f"or, without a known sampler, the loss jumps {JUMPS_MIN} times from below {LEARNED:.0%} to above {FORGOTTEN:.0%} of "
        f"the mean of the first losses, always after equally many steps, or a multiple (within {EVENLY:.0%}, and half the "
        f"way between two losses; {JUMPS_COARSE} times if that way is longer; possible)",
        f"or {REPEATS_MIN + 1} times or more, the same 2 to {REPEATED_MAX} jumps follow each other (possible)",
        f"or less far, from lower: {'; '.join(f'from {low:.0%} to {high:.0%}' for high, low in SURE)} (possible)",
        f"not if the learning rate rises to {RISES:g} times itself, or another model begins",
    ),
    hides=("J02", "J03"),
    estimated=True,
    mechanism=(
        "The data set is sorted, for example by class, and the loader reads it in that order. Each batch holds one class, so "
        "the model learns whichever comes now and forgets the others."
    ),
    signature="The loss falls nearly to 0 and jumps back to its initial value, many times in an epoch; the accuracy stays low.",
    look_alike="A schedule with warm restarts; a single batch with wrong labels; rounds that each train a new model.",
    fix="DataLoader(..., shuffle=True). DistributedSampler shuffles by default.",
    judge=not_shuffled,
)


def _keeps_order(rank: Rank) -> bool:
    facts = facts_of(rank)
    return (
        facts.sampler is not None and facts.sampler.shuffle is False and facts.loader is not None and not facts.loader.iterable
    )


def _has_no_sampler(rank: Rank) -> bool:
    facts = facts_of(rank)
    return facts.sampler is None and (facts.loader is None or bool(facts.loader.iterable))


def _forgotten(values: Sequence[float], low: float, high: float) -> list[int]:
    """Return the places at which the losses jump to ``high`` or above, each time from ``low`` or below."""
    found, is_low = [], False
    for at, value in enumerate(values):
        if value <= low:
            is_low = True
        elif is_low and high <= value < math.inf:
            found.append(at)
            is_low = False
    return found


def _per_round(steps: Sequence[int], jumps: Sequence[int]) -> int:
    """Return 1 if there are enough jumps, always after equally many steps, or a multiple; ``jumps`` are places of steps.

    Or how many jumps repeat after equally many steps: where classes of different sizes begin, in each epoch; 0 if none do.
    """
    if len(jumps) < JUMPS_MIN:
        return 0
    gaps = [steps[after] - steps[before] for before, after in itertools.pairwise(jumps)]
    between = median(after - before for before, after in itertools.pairwise(steps))
    is_coarse = between > EVENLY * median(gaps)
    if len(jumps) >= (JUMPS_COARSE if is_coarse else JUMPS_MIN) and _are_even(gaps, between):
        return 1
    return next((each for each in range(2, REPEATED_MAX + 1) if _repeat(steps, jumps, each, between)), 0)


def _repeat(steps: Sequence[int], jumps: Sequence[int], each: int, between: float) -> bool:
    """Return whether jumps repeat, ``each`` at a time, over equal distances and often enough."""
    ways = [steps[after] - steps[before] for before, after in zip(jumps, jumps[each:], strict=False)]
    if len(ways) < REPEATS_MIN * each:
        return False
    return max(ways) - min(ways) <= max(REPEATED_WITHIN * min(ways), between)


def _are_even(gaps: Sequence[int], between: float) -> bool:
    """Return whether the gaps are multiples of one; ``between``: how many steps are between two losses, which a jump awaits."""
    usual = median(gaps)
    if usual <= 0:
        return False
    mean = sum(gaps) / sum(max(1, round(gap / usual)) for gap in gaps)
    apart = (abs(gap - max(1, round(gap / mean)) * mean) for gap in gaps)
    return max(apart) <= EVENLY * mean + (between - 1) / 2


def _saw(steps: Sequence[int], values: Sequence[float], initial: float) -> _Saw | None:
    """Return how often the losses jump back; None if they never do."""
    lows, highs = [], []
    at = BEFORE
    while at + AFTER <= len(values):
        before, after = fmean(values[at - BEFORE : at]), min(values[at : at + AFTER])
        if before > 0 and JUMP * before <= after < math.inf and after >= BACK * initial:
            lows.append(before)
            highs.append(values[at])
            at += AFTER
        else:
            at += 1
    return _Saw(len(lows), steps[-1] - steps[0] + 1, median(lows), median(highs)) if lows else None


def _restarts(rates: Sequence[float]) -> bool:
    return any(after >= RISES * before > 0 for before, after in itertools.pairwise(rates))
