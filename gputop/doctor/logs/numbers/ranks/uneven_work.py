"""Ranks whose work differs from step to step, so that another one is the last each time. Pure."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence

from gputop import units
from gputop.doctor.findings.finding import Fact, Finding
from gputop.doctor.logs.numbers.parts import LINES_MIN, kind_of

LONGER = 1.3
"""The last rank computes this many times as long as the mean of all, in the median step (our choice)."""
SHARE_MAX = 0.7
"""No rank is the last one in more of the steps: then that rank is slow (our choice)."""
WAIT_SHARE = 0.5
"""The others wait for at least this share of the time by which they compute less than the last rank (our choice)."""

Printed = Mapping[str, Mapping[str, Sequence[float]]]


def uneven_work(printed: Printed) -> Finding | None:
    """Return the finding (F03) on ranks that wait for another one in each step; None if they do not.

    Args:
        printed: for each rank by its number, the seconds of each part of its steps, in the order of the steps.
    """
    works = {rank: _sums(parts, "compute") for rank, parts in printed.items()}
    waits = {rank: _sums(parts, "waiting", "communication") for rank, parts in printed.items()}
    steps = min((len(values) for values in (*works.values(), *waits.values())), default=0)
    if len(works) < 2 or steps < LINES_MIN or len({len(values) for values in works.values()}) > 1:
        return None
    rows = [{rank: values[at] for rank, values in works.items()} for at in range(steps)]
    longer = statistics.median(max(row.values()) / (statistics.fmean(row.values()) or 1.0) for row in rows)
    last = Counter(max(row, key=row.__getitem__) for row in rows)
    if longer < LONGER or last.most_common(1)[0][1] > SHARE_MAX * steps:
        return None
    less = sum(max(row.values()) - value for row in rows for value in row.values())
    waited = sum(values[at] for values in waits.values() for at in range(steps))
    if waited < WAIT_SHARE * less:
        return None
    share = waited / (waited + sum(value for row in rows for value in row.values()))
    return Finding(
        id="F03",
        severity="warning",
        confidence="likely",
        title=f"The work of the ranks is uneven: they wait for {share:.0%} of the time, each step for another one",
        evidence=(
            Fact(f"the last rank computes {longer:.1f} times as long as the mean of all", round(longer, 2), "log"),
            Fact(f"{len(last)} ranks were the last one in {units.count(steps)} steps", len(last), "log"),
        ),
        cause="A step ends when the rank with the most work is done: longer sequences, more boxes, larger graphs. Chance "
        "decides which rank that is.",
        fix="# batches of about as many tokens (frames, nodes) on each rank, not of as many samples\n"
        "# sort by length in windows, and deal out neighbors to the ranks",
        refuted_by="The ranks wait for something else, such as a slow network.",
    )


def _sums(parts: Mapping[str, Sequence[float]], *kinds: str) -> list[float]:
    """Return the sums of the parts of these kinds, step by step."""
    series = [values for name, values in parts.items() if kind_of(name) in kinds]
    return [sum(each) for each in zip(*series, strict=False)]
