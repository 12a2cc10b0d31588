"""Evaluations that give the same value each time, beside a loss that stays where it began (part of J03). Pure."""

from __future__ import annotations

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings.finding import Confidence, Fact, Finding
from gputop.doctor.rules.learning.courses import Course, courses
from gputop.doctor.rules.learning.evaluations import is_an_evaluation, is_same, is_score, is_telling
from gputop.doctor.rules.learning.weights_stay import BAND, SEEN_FROM_STEP
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.only_loss import STRETCHES_MIN
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.snapshot import Rank

ALIKE_MIN = 6
"""So many evaluations give the same value: the first few may come before the first step (our choice)."""
REPORTS_EACH = 2
"""A training loss that is reported at most so many times for each evaluation is the mean of many batches (our choice)."""
_COLLAPSED = (
    "Steps change the weights, but not the answers: the model gives the same class to every input. The classes are far from "
    "equally frequent, the rate is far too high, the inputs say nothing about the labels, or the signal dies inside the model."
)
_CLASSES = """\
print(model(x).argmax(-1).unique(return_counts=True))  # a single class?
# a lower learning rate, normalized inputs, a weight for each class
# and overfit ten samples: if the model cannot, it has a fault"""


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
