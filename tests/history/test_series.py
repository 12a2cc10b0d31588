"""History: bounded, and no spike is lost however long the run."""

from __future__ import annotations

import math
import sys
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gputop.history import history
from gputop.history import series as series_module
from gputop.history.buckets import Bucket
from gputop.history.history import History
from gputop.history.metrics import MetricSeries
from gputop.history.series import BUCKETS, Series
from gputop.process import DeviceUse, Process
from gputop.snapshot import Points
from tests import samples
from tests.fuzzing import examples


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), min_size=1, max_size=600), st.integers(1, 80))
@settings(max_examples=examples(60))
def test_columns_keep_every_extreme(values: list[float], count: int) -> None:
    series = Series()
    for x, value in enumerate(values):
        series.append(x, value)
    columns = [column for column in series.columns(0, len(values), count) if column]
    finite = [value for value in values if math.isfinite(value)]
    assert sum(column.count for column in columns) == len(finite)
    assert sum(column.non_finite for column in columns) == len(values) - len(finite)
    if finite:
        assert min(column.low for column in columns) == min(finite)
        assert max(column.high for column in columns) == max(finite)


@given(st.lists(st.floats(allow_nan=True, allow_infinity=True), max_size=100), st.integers(1, 40))
@settings(max_examples=examples(60))
def test_values_added_one_by_one_are_those_added_together(values: list[float], limit: int) -> None:
    single, together = Series(limit), Series(limit)
    for x, value in enumerate(values):
        single.append(x, value)
    together.extend(range(len(values)), values)
    assert repr([*single.buckets]) == repr([*together.buckets])  # NaN differs from itself, but not in writing
    assert repr((single.last, single.last_x)) == repr((together.last, together.last_x))
    assert (single.width, single.samples, single.version) == (together.width, together.samples, together.version)


def test_memory_is_bounded_and_the_spike_stays() -> None:
    series = Series()
    spike_at = 31_337
    for x in range(5 * BUCKETS * 4):
        series.append(x, 100.0 if x == spike_at else 1.0)
    assert len(series.buckets) <= BUCKETS
    columns = series.columns(0, 5 * BUCKETS * 4, 100)
    high = [index for index, column in enumerate(columns) if column and column.high == 100.0]
    assert len(high) == 1
    assert abs(high[0] - spike_at * 100 // (5 * BUCKETS * 4)) <= 1


def test_a_stale_or_lost_device_leaves_a_gap() -> None:
    seen = History()
    seen.observe(samples.snapshot(0))
    seen.observe(samples.snapshot(1, devices=(samples.device(0, state="stale"), samples.device(1))))
    assert seen.device(samples.device(0).uuid, "utilization_percent").samples == 1
    assert seen.device(samples.device(1).uuid, "utilization_percent").samples == 2


def test_unknown_readings_are_not_zero() -> None:
    seen = History()
    seen.observe(samples.snapshot(0, devices=(samples.device(0, power_w=None),)))
    assert seen.device(samples.device(0).uuid, "power_w") is None


def test_readings_drawn_for_one_gpu_are_kept_in_less_detail() -> None:
    seen = History()
    for tick in range(2 * history.DETAIL_BUCKETS):
        seen.observe(samples.snapshot(tick, devices=(samples.device(0, power_w=float(tick)),), points=(), runs=()))
    power = seen.device(samples.device(0).uuid, "power_w")
    assert len(power.buckets) <= history.DETAIL_BUCKETS
    assert power.span() == (samples.EPOCH, samples.EPOCH + 2 * history.DETAIL_BUCKETS - 1)
    assert len(seen.device(samples.device(0).uuid, "utilization_percent").buckets) == 2 * history.DETAIL_BUCKETS


def test_throttle_reasons_are_kept_where_they_change() -> None:
    seen, uuid = History(), samples.device(0).uuid
    for tick, reasons in enumerate([(), (), ("sw_power_cap",), ("sw_power_cap",), ()]):
        seen.observe(samples.snapshot(tick, devices=(samples.device(0, throttle_reasons=reasons),)))
    times = [(time - samples.EPOCH, reasons) for time, reasons in seen.throttling(uuid)]
    assert times == [(0, ()), (2, ("sw_power_cap",)), (4, ())]
    assert seen.throttling("GPU-unknown") == ()


def test_metrics_by_rank_step_and_time() -> None:
    seen = History()
    seen.observe(samples.snapshot(0))
    ranks = seen.metric("run-1", "loss")
    assert sorted(ranks) == [0, 1, 2, 3]
    assert ranks[0].by_step.span() == (0, 199)
    assert ranks[0].by_time.span() == (samples.EPOCH - 600, samples.EPOCH - 401)
    assert seen.metrics("run-1") == ("loss",)


def test_steps_may_go_back() -> None:
    seen = History()
    seen.observe(samples.snapshot(0, points=(Points("run-1", 0, "loss", (5, 6, 2, 3), (1.0, 2.0, 3.0, 4.0), (1, 2, 3, 4)),)))
    series = seen.metric("run-1", "loss")[0].by_step
    assert series.span() == (2, 6)
    assert [column.last if column else None for column in series.columns(2, 7, 5)] == [3, 4, None, 1, 2]


def test_runs_that_are_no_longer_listed_are_forgotten_in_the_end() -> None:
    seen = History()
    for number in range(history.ENDED_RUNS_KEPT + 10):
        point = Points(f"r{number}", 0, "loss", (1,), (1.0,), (1.0,))
        seen.observe(samples.snapshot(number, runs=(samples.run(run_id=f"r{number}"),), points=(point,)))
    kept = [number for number in range(history.ENDED_RUNS_KEPT + 10) if seen.metrics(f"r{number}")]
    assert history.ENDED_RUNS_KEPT <= len(kept) <= history.ENDED_RUNS_KEPT + 1
    assert kept[-1] == history.ENDED_RUNS_KEPT + 9


def test_processes_that_ended_longest_ago_are_forgotten() -> None:
    held_by = History()
    use = DeviceUse("GPU-1", 1 << 30, 40.0)
    stays = Process(1, devices=(use,), started_at=1.0)
    for turn in range(history.PROCESSES_KEPT + 10):
        later = Process(100 + turn, devices=(DeviceUse("GPU-1", None, 7.0),), started_at=float(turn))
        held_by.observe(samples.snapshot(turn, time=samples.EPOCH + turn, processes=(stays, later), points=()))
    held = held_by.process(stays, "GPU-1", "memory_used_bytes")
    assert held is not None
    assert held.samples == history.PROCESSES_KEPT + 10
    assert len(held.buckets) <= history.PROCESS_BUCKETS
    assert held_by.process(later, "GPU-1", "memory_used_bytes") is None
    newest = held_by.process(later, "GPU-1", "sm_utilization_percent")
    assert newest is not None
    assert newest.last == 7.0
    assert held_by.process(Process(100, started_at=0.0), "GPU-1", "sm_utilization_percent") is None
    assert held_by.process(Process(1, started_at=2.0), "GPU-1", "sm_utilization_percent") is None


POINTS = st.lists(st.tuples(st.integers(-50, 50), st.integers(-9, 9).map(float) | st.just(math.nan)), max_size=60)


@given(
    st.lists(st.tuples(POINTS, st.sampled_from(["", "together", "beside"])), max_size=6), st.integers(1, 9), st.integers(1, 99)
)
def test_adding_many_values_at_once_equals_adding_them_one_by_one(
    chunks: list[tuple[list[tuple[int, float]], str]], limit: int, at_once: int
) -> None:
    """Whoever asks for the buckets of one axis in between, and however many values wait for that."""
    together, alone = Series(limit), Series(limit)
    beside = Series(limit, values_of=together)
    with mock.patch.object(series_module, "TOGETHER", at_once):
        for chunk, asked in chunks:
            together.extend([x for x, _ in chunk], [value for _, value in chunk])
            beside.extend([-x for x, _ in chunk], [value for _, value in chunk])
            for x, value in chunk:
                alone.append(x, value)
            if asked:
                assert len((together if asked == "together" else beside).buckets) == len(alone.buckets)
    assert [bucket.x_first for bucket in beside.buckets] == [-bucket.x_last for bucket in together.buckets]
    assert [str(bucket) for bucket in together.buckets] == [str(bucket) for bucket in alone.buckets]
    assert (together.width, together.samples, together.version) == (alone.width, alone.samples, alone.version)


def test_a_limit_that_is_lowered_while_values_wait_holds_for_both_axes() -> None:
    together = Series(64)
    beside = Series(64, values_of=together)
    for start in range(0, 192, 24):
        together.extend(range(start, start + 24), range(24))
        beside.extend(range(start, start + 24), range(24))
        if start == 48:
            together.limit = beside.limit = 8
    assert [str(bucket) for bucket in beside.buckets] == [str(bucket) for bucket in together.buckets]
    assert len(together.buckets) <= 8 + 1
    assert together.span() == (0, 191)


def test_a_value_without_a_place_on_an_axis_is_left_out() -> None:
    series = MetricSeries()
    series.extend([0, 1, 2**70, 3], [1.0, math.nan, 2.0, 3.0], [0.5, 0.6, 0.7, 0.8])
    assert [bucket.last for bucket in series.by_step.buckets] == [0.5, 0.8]
    assert [bucket.x_first for bucket in series.by_time.buckets] == [1.0, 3.0]


def test_where_more_processes_run_than_are_kept_the_first_keep_their_past() -> None:
    held_by = History()
    running = tuple(
        Process(pid, devices=(DeviceUse("GPU-1", 1 << 30),), started_at=1.0) for pid in range(history.PROCESSES_KEPT + 2)
    )
    for turn in range(3):
        held_by.observe(samples.snapshot(turn, time=samples.EPOCH + turn, processes=running, points=()))
    first = held_by.process(running[0], "GPU-1", "memory_used_bytes")
    assert first is not None
    assert first.samples == 3
    assert held_by.process(running[-1], "GPU-1", "memory_used_bytes") is None
    held_by.observe(samples.snapshot(3, time=samples.EPOCH + 3, processes=running[1:], points=()))
    assert held_by.process(running[0], "GPU-1", "memory_used_bytes") is None
    assert held_by.process(running[-2], "GPU-1", "memory_used_bytes") is not None


def arrays_of(*rows: Series) -> dict[int, int]:
    """The arrays that hold the buckets of these: identity -> size in bytes."""
    columns = [column for row in rows for column in (row.buckets.x_first, row.buckets.x_last, *row.buckets._columns)]
    return {id(column): sys.getsizeof(column) for column in columns}


@pytest.mark.parametrize(("spoiled", "most_bytes"), [(None, 30), (math.nan, 80)])
def test_values_at_full_resolution_are_kept_once(spoiled: float | None, most_bytes: int) -> None:
    by_step = Series()
    by_time = Series(values_of=by_step)
    values = [float(number % 7) for number in range(2048)]
    if spoiled is not None:
        values[1500] = spoiled
    for start in range(0, 2048, 512):
        by_step.extend(range(start, start + 512), values[start : start + 512])
        by_time.extend([1e9 + number for number in range(start, start + 512)], values[start : start + 512])
    assert sum(arrays_of(by_step, by_time).values()) < most_bytes * 2048
    assert [bucket.last for bucket in by_time.buckets][:1500] == values[:1500]
    assert [bucket.x_first for bucket in by_step.buckets] == list(range(2048))
    for number in range(2048, BUCKETS + 2):
        by_step.extend((number,), (9.0,))
        by_time.extend((1e9 + number,), (9.0,))
    assert (len(by_step.buckets), len(by_time.buckets), by_step.width) == (BUCKETS // 2 + 1, BUCKETS // 2 + 1, 2)
    assert [bucket.high for bucket in by_time.buckets] == [bucket.high for bucket in by_step.buckets]
    assert by_step.buckets[0] == Bucket(0, 1, 0, 1, 1, 2, 1)
