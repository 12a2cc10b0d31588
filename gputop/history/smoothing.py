"""Smoothing: the exponential moving average that every chart uses. Pure functions."""

from __future__ import annotations

import math
from collections.abc import Iterable

SMOOTHINGS = (0.0, 0.3, 0.6, 0.8, 0.9, 0.95, 0.99)
"""Weights of the past that the screens offer; 0 draws the raw curve. A settings file may contain any other weight."""


def smooth(values: Iterable[float | None], weight: float) -> list[float | None]:
    """Return the debiased exponential moving average of the values.

    ``weight`` is the share of the past in each result: 0 changes nothing, 0.99 smooths most. The average weights the k-th
    newest value by ``weight ** k`` and divides by the sum of these weights, as Adam does with its moments (Kingma and
    Ba, 2015, section 3): the first result is the first value, and early values are not overweighted.

    ``None`` (no value), NaN and infinities stay in place and do not enter the average.
    """
    if weight <= 0:
        return list(values)
    result: list[float | None] = []
    mean = known = 0.0
    for value in values:
        if value is None or not math.isfinite(value):
            result.append(value)
            continue
        known = weight * known + (1 - weight)
        share = (1 - weight) / known
        # Two products instead of a difference: values of opposite sign near the largest float must not overflow. The clamp
        # keeps rounding from carrying the mean past its two parts: a constant stays the same to the last bit.
        low, high = (mean, value) if mean < value else (value, mean)
        mean = value if share == 1 else min(high, max(low, (1 - share) * mean + share * value))
        result.append(mean)
    return result


def next_smoothing(weight: float, by: int) -> float:
    """Return the offered weight ``by`` places after the one nearest to ``weight``, or the last one in that direction."""
    place = min(range(len(SMOOTHINGS)), key=lambda index: abs(SMOOTHINGS[index] - weight))
    return SMOOTHINGS[min(len(SMOOTHINGS) - 1, max(0, place + by))]
