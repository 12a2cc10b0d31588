"""The newest values of a metric: what a point costs, and what has no place in a column."""

from __future__ import annotations

import math
import sys

from gputop.history.points import KEPT_POINTS, KEPT_QUICK, PointSeries

BYTES_PER_POINT = 32
"""Three numbers of 8 bytes, and the room that an array keeps to grow into."""


def test_a_point_costs_what_its_numbers_cost() -> None:
    series = PointSeries()
    for step in range(2 * KEPT_QUICK):
        series.extend((step,), (step / 1000,), (1.0 / (1 + step),))
    assert len(series) == KEPT_QUICK
    size = sum(map(sys.getsizeof, (series.steps, series.times, series.values)))
    assert size < BYTES_PER_POINT * len(series), "and none of the numbers is an object of Python's beside its column"
    assert {column.itemsize for column in (series.steps, series.times, series.values)} == {8}


def test_the_newest_points_are_kept_exactly() -> None:
    series = PointSeries()
    steps = range(10 * KEPT_POINTS)
    series.extend(steps, [60.0 * step for step in steps], [math.nan if step % 7 else 1 / 3 for step in steps])
    assert list(series.steps) == list(steps[-KEPT_POINTS:])
    assert series.times[-1] == 60.0 * steps[-1]
    assert all(math.isnan(point.value) if point.step % 7 else point.value == 1 / 3 for point in series)


def test_series_of_the_same_records_share_steps_and_times_until_they_differ() -> None:
    one, other = PointSeries(), PointSeries()
    for step in range(0, 2 * KEPT_QUICK, 50):
        steps = range(step, step + 50)
        times = [at / 1000 for at in steps]
        one.extend(steps, times, [0.5] * 50)
        other.extend(steps, times, [2.5] * 50, beside=one)
    assert other.steps is one.steps
    assert other.times is one.times
    one.extend((9000,), (9.0,), (0.25,))
    assert (one[-1], other[-1]) == ((9000, 9.0, 0.25), (3999, 3.999, 2.5))
    other.extend((9000,), (9.0,), (2.25,), beside=one)
    other.clear()
    assert (len(one), len(one.times), len(other)) == (KEPT_QUICK, KEPT_QUICK, 0)
    other.extend((9001,), (9.1,), (2.0,), beside=one)
    assert list(other) == [(9001, 9.1, 2.0)]


def test_a_step_beyond_64_bits_is_left_out_alone() -> None:
    series = PointSeries((1,), (1.0,), (0.1,))
    series.extend((2, 2**63, -(2**70), 3), (2.0, 2.5, 2.6, 3.0), (0.2, 9.0, 9.0, 0.3))
    assert [tuple(point) for point in series] == [(1, 1.0, 0.1), (2, 2.0, 0.2), (3, 3.0, 0.3)]


def test_series_of_equal_columns_compare_equal() -> None:
    one, other = PointSeries((1, 2), (0.0, 1.0), (5.0, 6.0)), PointSeries([1, 2, 3], [0.0, 1.0, 2.0], [5.0, 6.0, 7.0])
    assert one.steps == other[:2].steps
    assert one.steps != other.steps
