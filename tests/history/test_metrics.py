"""The screen and its doctor read one memory of each metric."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from gputop.doctor.evidence.evidence import Evidence
from gputop.history.history import History
from gputop.history.metrics import METRICS_FULL, MetricMemory, MetricSeries
from gputop.history.points import KEPT_POINTS
from gputop.snapshot import Points, Snapshot
from gputop.tui.machine import Machine
from tests import samples
from tests.tui.kit import StillFeed


def logged(sequence: int, steps: range, at_s: float | None = None) -> Snapshot:
    times = tuple(samples.EPOCH + step for step in steps)
    points = Points("run-1", 0, "loss", tuple(steps), times, tuple(1.0 / (1 + step) for step in steps))
    shot = samples.snapshot(sequence, points=(points,))
    return shot if at_s is None else replace(shot, monotonic_s=at_s)


def watched(*snapshots: Snapshot) -> tuple[History, Evidence]:
    """Return what a screen keeps of a stream, and the evidence of its doctor."""
    feed: Any = StillFeed(*snapshots)
    machine = Machine(feed)
    machine.doctor.load()
    machine.take_in()
    doctor = machine.doctor.doctor
    assert doctor is not None
    return machine.history, doctor._evidence


def test_the_screen_and_its_doctor_read_one_copy_of_a_metric() -> None:
    history, evidence = watched(logged(0, range(50)), logged(1, range(50, 60)))
    series = history.metric("run-1", "loss")[0]
    assert evidence.series("run-1", 0, "loss") is series.newest
    assert list(series.newest.steps) == list(range(60))
    assert [bucket.last for bucket in series.by_step.buckets] == list(series.newest.values)
    assert [bucket.x_first for bucket in series.by_time.buckets] == list(series.newest.times)


def test_a_run_that_takes_the_place_of_a_deleted_one_of_its_id_has_none_of_its_values() -> None:
    before, after = logged(0, range(50)), logged(2, range(5))
    (run,) = after.runs
    assert run.created_at is not None
    later = replace(after, runs=(replace(run, created_at=run.created_at + 60.0),))
    without = replace(logged(1, range(0)), runs=(), points=())
    for stream in ((before, later), (before, without, later)):
        history, evidence = watched(*stream)
        assert list(history.metric("run-1", "loss")[0].newest.steps) == list(range(5))
        series = evidence.series("run-1", 0, "loss")
        assert series is not None
        assert list(series.steps) == list(range(5))


def test_the_values_over_steps_and_over_time_are_one_copy() -> None:
    series = MetricSeries()
    series.extend(range(10_000), [samples.EPOCH + step for step in range(10_000)], [float(step % 7) for step in range(10_000)])
    by_step, by_time = list(series.by_step.buckets), list(series.by_time.buckets)
    assert [bucket.last for bucket in by_step] == [bucket.last for bucket in by_time]
    assert by_step[-1].x_last == 9999
    assert by_time[-1].x_last == samples.EPOCH + 9999
    series.by_step.buckets.extend_last([9999], [1e6])
    assert series.by_time.buckets[-1].high == 1e6


@pytest.mark.parametrize("shuffled", ["steps", "times"])
def test_places_that_go_back_are_kept_as_they_came(shuffled: str) -> None:
    """A run that continues from a checkpoint repeats steps, and a clock may be set back."""
    number = 5000
    back = [float(step ^ 1) for step in range(number)]
    up = [float(step) for step in range(number)]
    steps, times = (back, up) if shuffled == "steps" else (up, back)
    at_once, one_by_one = MetricSeries(), MetricSeries()
    at_once.extend([int(step) for step in steps], times, up)
    for step, at, value in zip(steps, times, up, strict=True):
        one_by_one.extend([int(step)], [at], [value])
    for found, expected in ((at_once.by_step, one_by_one.by_step), (at_once.by_time, one_by_one.by_time)):
        assert min(bucket.x_first for bucket in found.buckets) == min(bucket.x_first for bucket in expected.buckets) == 0
        assert all(bucket.x_first <= bucket.x_last for bucket in found.buckets)
        assert list(found.buckets) == list(expected.buckets)


@pytest.mark.parametrize("again", [logged(0, range(40)), logged(2, range(40, 45), at_s=1e6)])
def test_after_an_interruption_the_doctor_reads_what_a_doctor_alone_would(again: Snapshot) -> None:
    """A restarted sampler repeats the past of every run; after a gap, the doctor starts anew."""
    before = [logged(0, range(30)), logged(1, range(30, 40))]
    _, evidence = watched(*before, again)
    alone = Evidence()
    alone.observe(again)
    assert list(evidence.series("run-1", 0, "loss")) == list(alone.series("run-1", 0, "loss"))


def test_a_gap_takes_nothing_from_the_curves() -> None:
    history, _ = watched(logged(0, range(40)), logged(1, range(40, 45), at_s=1e6))
    assert history.metric("run-1", "loss")[0].by_step.span() == (0, 44)


def test_columns_of_unequal_length_and_places_off_every_axis_are_left_out() -> None:
    series = MetricSeries()
    series.extend((1, 2, 3), (1.0, math.nan), (5.0, 6.0, 7.0))
    assert series.by_step.span() == (1, 1)
    assert [point.value for point in series.newest] == [5.0, 6.0], "the doctor judges by steps"
    series.extend((4, 10**400), (4.0, 5.0), (8.0, 9.0))
    assert series.by_step.span() == series.by_time.span() == (1, 4)
    assert [point.value for point in series.newest] == [5.0, 6.0, 8.0]


def test_a_doctor_alone_keeps_no_past() -> None:
    memory = MetricMemory(buckets=0)
    memory.observe(logged(0, range(3 * KEPT_POINTS)))
    series = memory.metric("run-1", "loss")[0]
    assert len(series.newest) == KEPT_POINTS
    assert not series.by_step.buckets


def test_many_metrics_share_the_memory_of_some() -> None:
    """More series keep fewer buckets each, those that were full too once they grow; the past and every extreme remain."""
    memory = MetricMemory(buckets=1024)
    steps, values = tuple(range(1024)), tuple(9.0 if step == 700 else step % 7 / 7 for step in range(1024))
    times = tuple(samples.EPOCH + step for step in steps)
    for rank in range(METRICS_FULL):
        memory.add(Points("run-1", rank, "loss", steps, times, values))
    first = memory.metric("run-1", "loss")[0]
    assert len(first.by_step.buckets) == 1024
    for rank in range(METRICS_FULL, 2 * METRICS_FULL + 1):
        memory.add(Points("run-1", rank, "loss", steps, times, values))
    found = memory.metric("run-1", "loss")
    for rank in found:
        memory.add(Points("run-1", rank, "loss", (1024, 1025), (samples.EPOCH + 1024, samples.EPOCH + 1025), (0.5, math.nan)))
    for rank, series in found.items():
        for axis, start in ((series.by_step, 0.0), (series.by_time, samples.EPOCH)):
            assert len(axis.buckets) <= 256 + 1, rank
            assert axis.span() == (start, start + 1025)
            assert max(bucket.high for bucket in axis.buckets) == 9.0
    assert [str(bucket.low) for bucket in first.by_step.buckets] == [str(bucket.low) for bucket in first.by_time.buckets]


def test_a_series_knows_since_which_step_its_values_are_no_numbers() -> None:
    series = MetricSeries(limit=0)
    assert (series.not_finite_since, series.last_finite) == (None, None)
    series.extend((0, 1, 2, 3), (0.0, 1.0, 2.0, 3.0), (2.0, math.nan, 1.0, math.inf))
    assert (series.not_finite_since, series.last_finite) == (3, (2, 1.0))
    for step in range(4, 10 * KEPT_POINTS):
        series.extend((step,), (float(step),), (math.nan,))
    assert (series.not_finite_since, series.last_finite) == (3, (2, 1.0))
    series.newest.clear()
    assert (series.not_finite_since, series.last_finite) == (3, (2, 1.0))
    series.extend((2,), (1e5,), (1.5,))  # continues from a checkpoint
    assert (series.not_finite_since, series.last_finite) == (None, (2, 1.5))
