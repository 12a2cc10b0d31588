"""Weights that do not change, or too coarse for their steps, while the loss stays where it began (J03): by their probes, and by
evaluations that give the same value each time."""

from __future__ import annotations

import math

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings.finding import Confidence, Fact, Finding
from gputop.doctor.rules.learning.evaluating.courses import Course, courses
from gputop.doctor.rules.learning.evaluating.evaluations import is_an_evaluation, is_same, is_score, is_telling
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.only_loss import STRETCHES_MIN
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.facts.measured import Parameters
from gputop.snapshot import Rank

PROBES_MIN = 6
"""This many probes must agree; there is one every 10 steps (our choice)."""
COARSE_SHARE = 0.25
"""Of weights in 16 bits, at most this share changes in 10 steps (our choice): with steps that count, nearly all do."""
STEPS_MIN = 100
BAND = 0.05
"""No average of the loss leaves a band of this share around the first one (our choice)."""
SEEN_FROM_STEP = 50
_SIGNIFICANT = {"bfloat16": 256, "float16": 2048}
"""A step below half of this part of a weight is rounded away."""
ALIKE_MIN = 6
"""This many evaluations give the same value: the first few may come before the first step (our choice)."""
REPORTS_EACH = 2
"""A training loss that is reported at most this many times for each evaluation is the mean of many batches (our choice)."""
_COLLAPSED = (
    "Steps change the weights, but not the answers: the model gives the same class to every input. The classes are far from "
    "equally frequent, the rate is far too high, the inputs say nothing about the labels, or the signal dies inside the model."
)
_CLASSES = """\
print(model(x).argmax(-1).unique(return_counts=True))  # a single class?
# a lower learning rate, normalized inputs, a weight for each class
# and overfit ten samples: if the model cannot, it has a fault"""


def weights_stay(evidence: Evidence, group: RankGroup, rank: Rank, name: str) -> Judgement:
    """Judge a tracked run whose loss has not moved from where it began, by the probes of its weights."""
    probes = facts_of(rank).parameters
    if group.run is None or probes is None or len(probes.recent) < PROBES_MIN:
        return None
    still, coarse = _is_still(probes), _is_coarse(probes)
    loss = _flat(evidence, group, rank, name) if still or coarse else None
    if loss is None or (coarse and warms_up(evidence, group, rank)):
        return None
    start, now, steps = loss
    first, last = min(probes.recent), max(probes.recent)
    several = any(name.startswith("optimizer/") for name in rank.facts)
    on_gpu = any(checksum is None for checksum, _ in probes.recent.values())
    facts = [
        Fact(
            f"the loss is {units.metric(now)} after {units.count(steps)} steps, {units.metric(start)} at first",
            now,
            f"journal: {name}",
        )
    ]
    if still:
        title = f"None of the sampled weights has changed for {units.count(last - first)} steps"
        text = (
            f"steps {units.count(first)} to {units.count(last)}: {len(probes.recent)} samples of them are equal to the last bit"
        )
        facts.insert(0, Fact(text, last - first, "journal: parameters"))
    else:
        share = max(probes.changed.values())
        title = f"The weights hardly change: at most {share:.0%} of them in 10 steps"
        facts.insert(
            0,
            Fact(
                f"of the sampled weights, at most {share:.0%} changed from one sample to the next", share, "journal: parameters"
            ),
        )
    if probes.dtype in _SIGNIFICANT:
        facts.append(Fact(f"they are kept in {probes.dtype}", probes.dtype, "journal: parameters"))
        cause = (
            f"A step that is smaller than about 1/{_SIGNIFICANT[probes.dtype]} of a weight is lost when the sum is rounded to "
            f"{probes.dtype}."
        )
        fix = (
            "# keep the weights in float32, and compute in 16 bits:\n"
            'with torch.autocast(device_type="cuda", dtype=torch.bfloat16):  # instead of model.to(torch.bfloat16)\n'
            "    loss = compute_loss(model(x), y)"
        )
    else:
        cause = (
            "No step reaches them: the optimizer holds the parameters of another model, the loss is detached from the model, "
            "or each step is skipped."
        )
        fix = (
            "held = {id(p) for g in optimizer.param_groups for p in g['params']}\n"
            'print(sum(id(p) in held for p in model.parameters()), "parameters are in the optimizer")\n'
            'print(sum(p.grad is not None for p in model.parameters()), "have a gradient after backward()")'
        )
    finding = tracked.about(
        group,
        "J03",
        "warning",
        "possible" if on_gpu or several else "likely",
        title,
        facts,
        cause,
        fix,
        "The sampled weights are the ones that are meant to rest: a frozen part, or rows of a table that no batch used.",
    )
    return Suspicion(finding, 5.0)


def _is_still(probes: Parameters) -> bool:
    """Return whether all probes are equal. Sums that are not finite say nothing."""
    values = list(probes.recent.values())
    return all(value == values[0] and value[1] is not None and math.isfinite(value[1]) for value in values)


def _is_coarse(probes: Parameters) -> bool:
    changed = probes.changed
    if probes.dtype not in _SIGNIFICANT or not changed or len(changed) < PROBES_MIN:
        return False
    return max(changed.values()) <= COARSE_SHARE


def _flat(evidence: Evidence, group: RankGroup, rank: Rank, name: str) -> tuple[float, float, int] | None:
    """Return the loss at first and now, and the steps between them; None if it moved, or is not known from the beginning."""
    stretches = evidence.levels(group.run_id, rank.rank, name).stretches
    if len(stretches) < STRETCHES_MIN or stretches[0].step > SEEN_FROM_STEP:
        return None
    steps = stretches[-1].step - stretches[0].step
    half = len(stretches) // 4
    start = units.mean([stretch.mean for stretch in stretches[: max(1, half)]])
    now = units.mean([stretch.mean for stretch in stretches[-max(1, half) :]])
    if steps < STEPS_MIN or abs(now - start) > BAND * abs(start):
        return None
    return start, now, steps


def warms_up(evidence: Evidence, group: RankGroup, rank: Rank) -> bool:
    """Return whether the learning rate still rises, by its newest quarter: steps that are too small now are not later."""
    rates = evidence.series(group.run_id, rank.rank, "lr").values
    newest = rates[len(rates) * 3 // 4 :]
    return bool(rates) and rates[-1] > (newest[0] if len(newest) > 1 else rates[0])


def evaluated_alike(evidence: Evidence, group: RankGroup, rank: Rank, name: str) -> Judgement:
    """Judge a run whose evaluations are equal to the last digit, although it trains: no step has changed the weights."""
    stretches = evidence.levels(logged.run_id(group), rank.rank, name).stretches
    if len(stretches) < STRETCHES_MIN or stretches[0].step > SEEN_FROM_STEP:
        return None
    start, now = stretches[0].mean, units.mean([stretch.mean for stretch in stretches[-2:]])
    if abs(now - start) > BAND * abs(start):
        return None
    same = [item for item in courses(evidence, group, is_an_evaluation) if is_same(item) and item.values >= ALIKE_MIN]
    told = [item for item in same if is_telling(item) or is_score(item)]
    alike = min(told, key=lambda item: not is_telling(item), default=None)
    if alike is None:
        return None
    # A score may also be equal because the model answers the same to everything.
    sure: Confidence = "likely" if is_telling(alike) else "possible"
    value = units.metric(alike.highest)
    facts = [
        Fact(f"{alike.name} has been {value} each of {alike.values} times", alike.highest, alike.source),
        Fact(f"{name} is {units.metric(now)}, {units.metric(start)} at first", now, f"{logged.source(group)}: {name}"),
    ]
    moving = None if is_telling(alike) else _moving(evidence, group, rank, name, alike.values)
    if moving is not None:
        title = f"The evaluation gives the same score each time ({alike.name} {value}), although {moving.name} moves"
        low, high = units.metric(moving.lowest), units.metric(moving.highest)
        facts.append(Fact(f"{moving.name} was {low} to {high}", moving.highest, moving.source))
        return Suspicion(_finding(group, "possible", title, facts, _COLLAPSED, _CLASSES), 5.0)
    cause = (
        "The same weights give the same value, so no step changes them: gradients are set to zero before the optimizer's step, "
        "the optimizer holds the parameters of another model, or the loss is detached from the model."
    )
    fix = (
        "loss.backward(); optimizer.step(); optimizer.zero_grad()  # in this order\n"
        "held = {id(p) for g in optimizer.param_groups for p in g['params']}\n"
        'print(sum(id(p) in held for p in model.parameters()), "parameters are in the optimizer")'
    )
    title = f"The evaluation gives the same value each time ({alike.name} {value}), and the loss stays where it began"
    return Suspicion(_finding(group, sure, title, facts, cause, fix), 5.0)


def _moving(evidence: Evidence, group: RankGroup, rank: Rank, name: str, evaluations: int) -> Course | None:
    """Return a loss that differs from one evaluation to the next: then steps do change the weights.

    A training loss counts if each report is the mean of many batches: a single batch's differs with the batch.
    """
    for item in courses(evidence, group, is_an_evaluation):
        if not is_score(item) and item.lowest != item.highest and item.values > 1:
            return item
    values = evidence.series(logged.run_id(group), rank.rank, name).values
    lowest, highest = min(values), max(values)
    if len(values) > REPORTS_EACH * evaluations or highest - lowest <= BAND * abs(units.mean(values)):
        return None
    return Course(name, len(values), lowest, highest, tuple(values), f"{logged.source(group)}: {name}")


def _finding(group: RankGroup, confidence: Confidence, title: str, facts: list[Fact], cause: str, fix: str) -> Finding:
    refuted = "The weights were good before this run, or the loss is meant to stay constant here (a warm-up, frozen layers)."
    return tracked.about(group, "J03", "warning", confidence, title, facts, cause, fix, refuted)
