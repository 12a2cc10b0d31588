"""Runs that learn a policy, by what they log: an environment rightly takes time, and their loss has no fixed aim."""

from __future__ import annotations

from collections.abc import Iterable

from gputop.snapshot import Rank

_WORDS = ("reward", "return", "episod")


def learns_policy(ranks: Iterable[Rank]) -> bool:
    """Return whether one of the ranks logs a reward, a return or episodes."""
    return any(word in metric.lower() for rank in ranks for metric in rank.metrics for word in _WORDS)
