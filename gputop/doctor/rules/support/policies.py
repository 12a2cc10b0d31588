"""Runs that learn a policy, by what they log or print: an environment rightly takes time, and their loss has no fixed aim."""

from __future__ import annotations

from collections.abc import Iterable

from gputop.doctor.facts.stated import facts_of
from gputop.losses import is_return
from gputop.snapshot import Rank

_WORDS = ("reward", "return", "episod")


def learns_policy(ranks: Iterable[Rank]) -> bool:
    """Return whether one of the ranks logs a reward, a return or episodes, or prints a reward or a return."""
    return any(map(_learns_policy, ranks))


def _learns_policy(rank: Rank) -> bool:
    if any(word in metric.lower() for metric in rank.metrics for word in _WORDS):
        return True
    return any(is_return(course.name or "") for course in facts_of(rank).printed or ())
