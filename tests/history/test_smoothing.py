"""The one smoothing, and that the dashboard and the run's screen draw the same curve with it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.history.columns import LiveColumns
from gputop.history.metrics import MetricSeries
from gputop.history.smoothing import SMOOTHINGS, next_smoothing, smooth
from gputop.tui.drawing import large_chart
from gputop.tui.drawing.loss import MeanOfRanks, curves_of_ranks

FINITE = st.floats(allow_nan=False, allow_infinity=False)
WEIGHTS = st.floats(0.0, 0.99)


def series_of(values: list[float]) -> MetricSeries:
    series = MetricSeries()
    series.extend(range(len(values)), [1000.0 + step for step in range(len(values))], values)
    return series


@pytest.mark.parametrize("per_rank", [True, False])
@pytest.mark.parametrize("weight", [0.3, 0.9, 0.99])
@pytest.mark.parametrize("steps", [3, 40, 5000])
def test_the_dashboard_and_the_run_screen_draw_the_same_curve(steps: int, weight: float, per_rank: bool) -> None:
    ranks = {rank: series_of([3.0 / (1 + step) + (step * (rank + 3)) % 5 for step in range(steps)]) for rank in range(2)}
    end, columns = float(steps - 1), 120
    held = {rank: LiveColumns().columns(rank, item.by_step, 0.0, end, columns) for rank, item in ranks.items()}
    small = curves_of_ranks(held, weight) if per_rank else [MeanOfRanks().trace([*held], [*held.values()], 0, weight)]
    large, _ = large_chart.curves_of(
        ranks, x_kind="step", start=0.0, end=end, columns=columns, per_rank=per_rank, smoothing=weight
    )
    curves = [curve for curve in large if curve.label.startswith(("rank", "mean"))]
    assert len(small) == len(curves) == (2 if per_rank else 1)
    for trace, curve in zip(small, curves, strict=True):
        assert [value for value in trace.values if value is not None] == [value for _, value in curve.points]


@given(FINITE, WEIGHTS, st.integers(1, 50))
def test_a_constant_stays_constant(value: float, weight: float, count: int) -> None:
    assert smooth([value] * count, weight) == [value] * count


@given(st.lists(FINITE, min_size=1), WEIGHTS)
def test_the_first_result_is_the_first_value_and_all_lie_between_the_values(values: list[float], weight: float) -> None:
    smoothed = smooth(values, weight)
    assert smoothed[0] == values[0]
    assert all(value is not None and min(values) <= value <= max(values) for value in smoothed)


@given(st.lists(st.none() | st.floats()), WEIGHTS)
def test_non_finite_values_keep_their_place_and_change_nothing(values: list[float | None], weight: float) -> None:
    finite = [value is not None and math.isfinite(value) for value in values]
    smoothed = smooth(values, weight)
    assert [repr(item) for item, known in zip(smoothed, finite, strict=True) if not known] == [
        repr(item) for item, known in zip(values, finite, strict=True) if not known
    ]
    alone = smooth([item for item, known in zip(values, finite, strict=True) if known], weight)
    assert [item for item, known in zip(smoothed, finite, strict=True) if known] == alone


@given(st.lists(st.none() | FINITE))
def test_a_weight_of_zero_changes_nothing(values: list[float | None]) -> None:
    assert smooth(values, 0.0) == values


def test_each_value_weighs_less_than_the_one_after_it() -> None:
    assert smooth([1.0, 3.0, None, 5.0], 0.5) == pytest.approx([1.0, 7 / 3, None, 27 / 7])
    alternating = [value for value in smooth([float(step % 2) for step in range(200)], 0.9) if value is not None]
    assert max(alternating[50:]) - min(alternating[50:]) < 0.2


def test_the_keys_step_through_what_the_settings_offer() -> None:
    assert [next_smoothing(weight, 1) for weight in SMOOTHINGS] == [*SMOOTHINGS[1:], SMOOTHINGS[-1]]
    assert [next_smoothing(weight, -1) for weight in SMOOTHINGS] == [SMOOTHINGS[0], *SMOOTHINGS[:-1]]
    assert next_smoothing(0.52, 1) == 0.8
