"""Gradients that are never zeroed: the cause of a loss that grows (J02) or stays (J03), or a finding alone (J03, possible)."""

from __future__ import annotations

from dataclasses import replace

from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.doctor.facts.stated import facts_of
from gputop.doctor.findings.finding import Fact
from gputop.doctor.rules.support import tracked
from gputop.doctor.rules.support.rule import Judgement, Suspicion

STEPS_MIN = 8
"""This many steps in a row must have found the gradients of the one before (our choice)."""
_CAUSE = "Each step uses the sum of all gradients since the run began, because nothing zeroes them after the optimizer's step."
_FIX = "optimizer.zero_grad(); loss.backward(); optimizer.step()  # in this order, in every step"
_REFUTED = "Gradients are meant to accumulate across steps, or the loop only measures speed."


def with_cause(group: RankGroup, judgement: Judgement) -> Judgement:
    """Return the judgement with this cause if the run's gradients accumulate across steps."""
    fact = _kept(group)
    if fact is None or not isinstance(judgement, Suspicion):
        return judgement
    finding = judgement.finding
    return replace(judgement, finding=replace(finding, evidence=(fact, *finding.evidence), cause=_CAUSE, fix=_FIX))


def accumulate(group: RankGroup) -> Judgement:
    """Judge a run whose gradients accumulate across steps although its loss shows no harm yet."""
    fact = _kept(group)
    if fact is None:
        return None
    title = "Gradients accumulate across steps: nothing zeroes them"
    return Suspicion(tracked.about(group, "J03", "warning", "possible", title, [fact], _CAUSE, _FIX, _REFUTED), 3.0)


def _kept(group: RankGroup) -> Fact | None:
    for rank in tracked.ranks_of(group):
        known = facts_of(rank).parameters
        steps = known.kept_gradients if known is not None else None
        if steps is not None and steps >= STEPS_MIN:
            text = f"in each of the first {steps} steps, the backward pass found the gradients of the step before"
            return Fact(text, steps, "journal: parameters")
    return None
