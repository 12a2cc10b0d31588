"""The mean of ranks that log at different moments."""

from __future__ import annotations

import pytest

from gputop.history.history import History
from gputop.snapshot import Points
from gputop.tui.drawing import large_chart

STEPS = 100


def logged(history: History, rank: int, value: float, late_s: float, steps: int = STEPS) -> None:
    """One value each second, ``late_s`` after the full second."""
    times = tuple(step + late_s for step in range(steps))
    history.memory.add(Points("run-1", rank, "loss", tuple(range(steps)), times, (value,) * steps))


def means(history: History, columns: int = 400) -> list[tuple[float, float]]:
    series = history.metric("run-1", "loss")
    start, end = large_chart.span_of(series, "time") or (0.0, 0.0)
    (curve,), _ = large_chart.curves_of(series, x_kind="time", start=start, end=end, columns=columns, per_rank=False)
    return list(curve.points)


def test_the_mean_does_not_jump_between_ranks_that_log_in_turn() -> None:
    history = History()
    logged(history, 0, 0.0, 0.0)
    logged(history, 1, 40.0, 0.5)
    assert {value for _, value in means(history)} == {20.0}


def test_a_rank_that_has_ended_leaves_the_mean() -> None:
    history = History()
    logged(history, 0, 0.0, 0.0)
    logged(history, 1, 40.0, 0.5, steps=50)
    found = means(history)
    assert {value for time, value in found if time < 49} == {20.0}
    assert {value for time, value in found if time > 55} == {0.0}


def test_the_mean_follows_a_rank_between_its_values() -> None:
    history = History()
    history.memory.add(Points("run-1", 0, "loss", (0, 100), (0.0, 100.0), (0.0, 100.0)))
    logged(history, 1, 0.0, 0.0, steps=101)
    for time, value in means(history):
        assert value == pytest.approx(time / 2, abs=1.0)
