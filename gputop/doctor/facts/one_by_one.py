"""Ranks that average their gradients by hand, with a call of all_reduce for each parameter.

Facts are read without trust. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gputop.doctor.facts.calls import wrapped_by
from gputop.doctor.facts.ddp import divides_models
from gputop.doctor.facts.stated import facts_of
from gputop.snapshot import Rank

CALLS_MIN = 30
"""Calls in each step; fewer cost little (our choice)."""
STEPS_MIN = 20
PASSED_SHARE = 0.5
"""In each step, the calls pass on this share of the trained parameters or more (our choice): the counts are read now and then,
and may miss the newest steps."""


@dataclass(frozen=True, slots=True)
class OneByOne:
    """How a rank averages its gradients: calls in each step, and elements that a call passes on, on average."""

    calls: float
    elements: float


def averages_one_by_one(ranks: Sequence[Rank]) -> OneByOne | None:
    """Return how the ranks average their gradients one by one, by the first of them; None if they do not."""
    if len(ranks) < 2 or divides_models(ranks):
        return None
    found = [_one_by_one(rank) for rank in ranks]
    return found[0] if all(found) else None


def _one_by_one(rank: Rank) -> OneByOne | None:
    facts, steps = facts_of(rank), rank.steps_taken or 0
    fact, model = facts.process_group, facts.model
    if fact is None or model is None or steps < STEPS_MIN or wrapped_by(rank) is not None:
        return None
    # Flattened gradients and buckets are larger than the largest parameter; activations and metrics have other sizes.
    if not model.largest_parameter or fact.largest != model.largest_parameter or not model.trained_parameters:
        return None
    calls = fact.collectives.get("all_reduce", 0)
    if calls < CALLS_MIN * steps or (fact.reduced or 0) < PASSED_SHARE * model.trained_parameters * steps:
        return None
    return OneByOne(calls / steps, (fact.reduced or 0) / calls)
