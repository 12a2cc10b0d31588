"""The mean of several ranks, and their range, in the columns of a chart. Pure."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from gputop import units
from gputop.history.buckets import Bucket

_Range = tuple[float, float, float]
"""The lowest value, the mean and the highest value of one rank in one column."""


def middle(bucket: Bucket) -> float:
    """Return the x at which a bucket is drawn."""
    return (bucket.x_first + bucket.x_last) / 2


def mean_and_range(
    rows: Sequence[Sequence[Bucket | None]],
) -> tuple[tuple[tuple[float, float], ...], tuple[tuple[float, float, float], ...]]:
    """Return x and mean, and x, lowest and highest value, wherever one of the ranks has a value.

    Ranks do not log at the same moment. A rank without a value in a column counts there with what lies between its values; the
    mean of the others would jump back and forth between the ranks' losses.

    Args:
        rows: The columns of each rank; of a column that has only NaN or infinite values, nothing is known.
    """
    columns, seen = [], []
    for at, column in enumerate(zip(*rows, strict=True)):
        held = [bucket for bucket in column if bucket is not None and bucket.count]
        if held:
            columns.append(at)
            seen.append(held)
    filled = [_filled([row[at] for at in columns], columns) for row in rows]
    means, ranges = [], []
    for held, values in zip(seen, zip(*filled, strict=True), strict=True):
        x = sum(middle(bucket) for bucket in held) / len(held)
        known = [value for value in values if value is not None]
        means.append((x, units.mean([mean for _, mean, _ in known])))
        ranges.append((x, min(low for low, _, _ in known), max(high for _, _, high in known)))
    return tuple(means), tuple(ranges)


def _filled(row: Sequence[Bucket | None], columns: Sequence[int]) -> list[_Range | None]:
    """Return a rank's values, those between them, and those at its ends for as long as twice its usual distance of two values.

    The rest is None: there the rank had not begun, or has ended.
    """
    values = [(bucket.low, bucket.mean, bucket.high) if bucket is not None and bucket.count else None for bucket in row]
    known = [(place, value) for place, value in enumerate(values) if value is not None]
    if not known or len(known) == len(values):
        return values
    gaps = sorted(columns[after] - columns[before] for (before, _), (after, _) in itertools.pairwise(known))
    reach = 2 * gaps[len(gaps) // 2] if gaps else 0
    (first, at_first), (last, at_last) = known[0], known[-1]
    for place, column in enumerate(columns):
        if place < first and columns[first] - column <= reach:
            values[place] = at_first
        elif place > last and column - columns[last] <= reach:
            values[place] = at_last
    for (before, left), (after, right) in itertools.pairwise(known):
        for place in range(before + 1, after):
            share = (columns[place] - columns[before]) / (columns[after] - columns[before])
            low, mean, high = (start + (end - start) * share for start, end in zip(left, right, strict=True))
            values[place] = low, mean, high
    return values
