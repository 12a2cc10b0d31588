"""The losses of ranks that print their own: one grows, and all others fall. Pure."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from gputop.doctor.findings.finding import Fact, Finding
from gputop.units import metric

LOSSES_MIN, RANKS_MIN, GROWS, FALLS = 8, 3, 1.1, 0.9
"""The fewest losses of a rank and the fewest ranks to judge. The mean of the last quarter is at least, or at most, this many
times that of the first if the loss grows, or falls (our choice)."""


def one_grows(losses_of: Mapping[int, Sequence[float]]) -> Finding | None:
    """Return the finding (C11) on the rank whose loss grows, while those of all others fall; None if there is none."""
    courses = {number: losses for number, losses in sorted(losses_of.items()) if len(losses) >= LOSSES_MIN}
    if len(courses) < RANKS_MIN:
        return None
    changes = {number: _change(losses) for number, losses in courses.items()}
    grown = [number for number, change in changes.items() if change >= GROWS]
    if len(grown) != 1 or any(change > FALLS for number, change in changes.items() if number not in grown):
        return None
    losses = courses[grown[0]]
    return Finding(
        id="C11",
        severity="warning",
        confidence="likely",
        title=f"The loss of rank {grown[0]} grows, and those of the others fall",
        evidence=tuple(
            Fact(f"rank {number}: from {metric(each[0])} to {metric(each[-1])}", each[-1], "log")
            for number, each in ((grown[0], losses), *((n, c) for n, c in courses.items() if n != grown[0]))
        )[:4],
        cause="The ranks share one model, so the data of this one is another: labels that are numbered or shifted in "
        "another way, a damaged file, other preparation.",
        fix=f"# rank {grown[0]}: look at some of its samples and their labels\n"
        "dist.all_reduce(loss, op=dist.ReduceOp.AVG)  # and log the mean of all ranks: rank 0 hides this",
        refuted_by="Its data is meant to be of another kind.",
    )


def _change(losses: Sequence[float]) -> float:
    """Return how many times the mean of the last quarter is that of the first."""
    quarter = max(1, len(losses) // 4)
    first = statistics.fmean(losses[:quarter])
    return statistics.fmean(losses[-quarter:]) / first if first > 0 else 1.0
