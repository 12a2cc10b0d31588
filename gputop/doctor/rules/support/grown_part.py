"""The part of a step that grows over the course of a run while the others do not (for E10). Pure.

Other work on the machine lengthens all parts of a step alike. What piles up lengthens one of them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from gputop.doctor.evidence.evidence import WARM_UP_STEPS, Evidence
from gputop.levels import STEP_TIME, Stretch

PARTS = 8
SPAN_MIN_S = 40.0
"""Seconds that the course must take; half of them if the ratio is ``MUCH`` times as large."""
GROWTH, MUCH = 1.5, 4.0
RISING, RISING_IF_MUCH = 0.9, 0.8
"""By this factor, the part's ratio to the rest of the step must grow, in this share of all pairs of eighths (our choice)."""
SHARE_MIN = 0.25
"""A smaller part of the step at the end slows nothing down."""
STEP_GROWTH = 1.3
"""As for steps as a whole."""
_NAMES = {"phase/forward": "forward", "phase/backward": "backward", "phase/optimizer": "the optimizer"}
_REST, _DATA = "the time outside all phases", "phase/data"


class GrownPart(NamedTuple):
    """The part, its share of the step in the first and in the last eighth, and what a step took then, in seconds."""

    name: str
    first_share: float
    last_share: float
    first_s: float
    last_s: float
    steps: tuple[int, int]
    """The steps at which the first and the last eighth begin."""


def grown_part(evidence: Evidence, run_id: str | None, rank: int) -> GrownPart | None:
    """Return the part whose ratio to the rest of the step has grown from eighth to eighth; None if none has, or if unknown."""
    whole = evidence.levels(run_id, rank, STEP_TIME).stretches
    course = whole[-1].step - whole[0].step if whole else 0
    kept = [item for item in whole if item.step >= whole[0].step + min(WARM_UP_STEPS, course // PARTS)]
    if len(kept) < PARTS:
        return None
    begin, end = kept[0].step, kept[-1].step + 1
    edges = [begin + (end - begin) * place // PARTS for place in range(PARTS + 1)]
    steps = _means(kept, edges)
    if steps is None or min(steps) <= 0 or steps[-1] < STEP_GROWTH * steps[0]:
        return None
    span_s = sum(item.mean * item.count for item in kept)
    parts: dict[str, Sequence[float]] = {}
    for metric, name in (*_NAMES.items(), (_DATA, _DATA)):
        known = evidence.levels(run_id, rank, metric).stretches
        means = _means(known, edges) if known else None
        if means is not None:
            parts[name] = means
        elif metric in ("phase/forward", "phase/backward"):
            return None
    parts[_REST] = [max(0.0, step - sum(part[place] for part in parts.values())) for place, step in enumerate(steps)]
    parts.pop(_DATA, None)  # the workers' batches are waiting at first, and D01 is about the others
    for name, each in parts.items():
        shares = [min(0.999, part / step) for part, step in zip(each, steps, strict=True)]
        if shares[-1] >= SHARE_MIN and _grows(shares, span_s):
            return GrownPart(name, shares[0], shares[-1], steps[0], steps[-1], (edges[0], edges[-2]))
    return None


def _grows(shares: Sequence[float], span_s: float) -> bool:
    ratios = [max(share, 0.001) / (1.0 - share) for share in shares]
    pairs = list(itertools.combinations(ratios, 2))
    rising = sum(later > earlier for earlier, later in pairs) / len(pairs)
    growth = ratios[-1] / ratios[0]
    if growth >= MUCH and rising >= RISING_IF_MUCH:
        return span_s >= SPAN_MIN_S / 2
    return growth >= GROWTH and rising >= RISING and span_s >= SPAN_MIN_S


def _means(stretches: Sequence[Stretch], edges: Sequence[int]) -> list[float] | None:
    """Return the mean between each two edges; None if one of them has no value."""
    sums, counts = [0.0] * PARTS, [0] * PARTS
    for item in stretches:
        for place in range(PARTS):
            if edges[place] <= item.step < edges[place + 1]:
                sums[place] += item.mean * item.count
                counts[place] += item.count
    if not all(counts):
        return None
    means = [total / count for total, count in zip(sums, counts, strict=True)]
    return means if all(map(math.isfinite, means)) else None
