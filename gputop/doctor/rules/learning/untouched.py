"""Steps that change no weight, as the optimizers among the variables of an untracked training show it (J03).

Variables show it at once, whatever the script prints. A loss that has moved refutes it: then something learns, such as tensors
that stand for the model's.
"""

from __future__ import annotations

import math
import statistics

from gputop import units
from gputop.doctor.evidence.evidence import Evidence
from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.findings import words
from gputop.doctor.findings.finding import Confidence, Fact, Severity
from gputop.doctor.rules.learning.weights_stay import BAND
from gputop.doctor.rules.support import logged, tracked
from gputop.doctor.rules.support.only_loss import STRETCHES_MIN, only_loss
from gputop.doctor.rules.support.rule import Judgement, Suspicion
from gputop.process import Process
from gputop.whereabouts.records import HeldOptimizers

VANISHED_RATE = 1e-15
"""A step of this rate changes no weight in float32, which keeps seven digits. A cosine schedule that ends at 0 is below it in
its last steps only."""
HOLD_S = 45.0
"""Variables are looked at every 20 s: at least three looks must show it. One epoch of a warm-up may have a rate of 0."""
EPOCHS_MIN = 2
"""Micro-batches may be accumulated for long before the first step, but hardly over two ends of an epoch (our choice)."""
ERRORS = 2.0
"""The loss has moved if the means of its first and last quarters also differ by this many standard errors (our choice)."""

_CHECK = """\
held = {id(p) for g in optimizer.param_groups for p in g["params"]}
print(sum(id(p) in held for p in model.parameters()), "parameters are in the optimizer")
"""
_ORDER = "optimizer.zero_grad(); loss.backward(); optimizer.step()  # in this order, and each of them in every step"
_REFUTED = "The variables that were seen are not those of the training: what it trains is somewhere else."


def changes_nothing(evidence: Evidence, group: RankGroup) -> Judgement:
    """J03 from outside: the optimizers' rate is 0, they have never updated a tensor, or theirs are not the model's."""
    if group.run is not None:
        return None
    for member in group.members:
        process = member.process
        held = process.held.optimizers if process is not None and process.held is not None else None
        if process is None or held is None:
            continue
        if not (evidence.trains(group) or evidence.doings.seen(process).trains):
            return None
        moved = loss_moved(evidence, group)
        if moved:
            return None
        begun = evidence.held.epochs_begun(process)
        if held.rate is not None and abs(held.rate) <= VANISHED_RATE:
            return _no_rate(group, process, held, sure=held.is_fresh is False or moved is False)
        if held.is_fresh and (begun >= EPOCHS_MIN or held.twin is not None or moved is False):
            return _fresh(group, process, held, begun, sure=begun >= EPOCHS_MIN or (held.twin is not None and moved is False))
        if held.twin is not None and not held.is_fresh:
            return _elsewhere(group, process, held, sure=held.is_fresh is None and moved is False)
        return None
    return None


def loss_moved(evidence: Evidence, group: RankGroup) -> bool | None:
    """Return whether the training loss is elsewhere than when it was first seen; None if that is not known."""
    found = only_loss(evidence, group)
    if found is None:
        return None
    rank, name = found
    means = [item.mean for item in evidence.levels(logged.run_id(group), rank.rank, name).stretches]
    if len(means) < STRETCHES_MIN:
        return None
    quarter = len(means) // 4
    start, now = units.mean(means[:quarter]), units.mean(means[-quarter:])
    error = statistics.pstdev(means) / math.sqrt(quarter)
    return abs(now - start) > max(BAND * abs(start), ERRORS * error)


def _no_rate(group: RankGroup, process: Process, held: HeldOptimizers, *, sure: bool) -> Suspicion:
    rate = "0" if not held.rate else f"as good as 0 ({units.metric(held.rate)})"
    return _suspicion(
        group,
        process,
        "error" if sure else "warning",
        "likely" if sure else "possible",
        f"The learning rate is {rate}",
        [Fact(f"{_names(held)} has a learning rate of {units.metric(held.rate or 0.0)} in all its groups", held.rate, "")],
        "The optimizer multiplies each step by the learning rate: with 0, the weights do not change.",
        "# give the schedule as many steps as the run has; one that counts epochs steps once an epoch\n"
        "print(scheduler.get_last_lr(), [g['lr'] for g in optimizer.param_groups])",
        "The rate is about to rise, as in the first epoch of a warm-up.",
    )


def _fresh(group: RankGroup, process: Process, held: HeldOptimizers, begun: int, *, sure: bool) -> Suspicion:
    facts = [
        Fact(f"{_names(held)} holds {words.count(held.tensors, 'tensor')} and has kept nothing about any of them", 0, ""),
        *([Fact(f"{words.count(begun, 'epoch')} have begun since it was first seen", begun, "")] if begun else []),
        *_other(held),
    ]
    return _suspicion(
        group,
        process,
        "warning",
        "likely" if sure else "possible",
        "No step has changed a weight: the optimizer has never updated one",
        facts,
        "An optimizer of this kind keeps averages of a tensor from the first step on in which that has a gradient. So no step "
        "finds one: they are reset between backward() and step(), the optimizer holds another model's parameters, or step() is "
        "never reached.",
        f"{_ORDER}\n{_CHECK}",
        "The first step is still to come, after many micro-batches.",
    )


def _elsewhere(group: RankGroup, process: Process, held: HeldOptimizers, *, sure: bool) -> Suspicion:
    return _suspicion(
        group,
        process,
        "warning",
        "likely" if sure else "possible",
        "The optimizer may hold the parameters of another model",
        [
            Fact(f"{_names(held)} holds {words.count(held.tensors, 'tensor')}", held.tensors, ""),
            *_other(held),
        ],
        "The model was created, copied or loaded again after the optimizer: the steps change the old one's weights.",
        f"model = Net(); model.load_state_dict(state)  # first the model, then\n"
        f"optimizer = torch.optim.{held.names[0]}(model.parameters(), ...)\n{_CHECK}",
        "It holds copies of the weights that the script writes back, such as those in float32.",
    )


def _names(held: HeldOptimizers) -> str:
    return " and ".join(held.names)


def _other(held: HeldOptimizers) -> list[Fact]:
    if held.twin is None:
        return []
    return [Fact(f"{held.twin} has as many parameters, and none of them is among these", held.twin, "")]


def _suspicion(
    group: RankGroup,
    process: Process,
    severity: Severity,
    confidence: Confidence,
    title: str,
    facts: list[Fact],
    cause: str,
    fix: str,
    refuted_by: str,
) -> Suspicion:
    source = f"/proc/{process.pid}/mem"
    shown = [Fact(fact.text, fact.value, source) for fact in facts]
    return Suspicion(tracked.about(group, "J03", severity, confidence, title, shown, cause, fix.rstrip(), refuted_by), HOLD_S)
