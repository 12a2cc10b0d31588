"""The mean curve of several ranks, computed anew only where their columns have changed."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from gputop.history.history import History
from gputop.snapshot import Points
from gputop.tui.drawing.loss import LossChart
from gputop.tui.state.view import View
from tests import samples
from tests.tui import dashboards

RANKS = 3
EVERY = 37


def logged(history: History, first: int, rank: int) -> None:
    """Add the next steps of a rank. Some values are not finite, and once its steps go back."""
    steps = [step - 300 if 1500 <= first < 1600 else step for step in range(first, first + EVERY)]
    values = [math.nan if step % 211 == rank else math.sin(step / 50) + rank for step in steps]
    history.memory.add(Points("run-1", rank, "loss", tuple(steps), tuple(map(float, steps)), tuple(values)))


@pytest.mark.parametrize("smoothing", [0.0, 0.9])
def test_a_growing_chart_is_the_one_that_is_drawn_at_once(smoothing: float) -> None:
    history = History(shared_by=32)  # few buckets, which merge early
    run = samples.run(world_size=RANKS)
    view = dashboards.view_of([samples.snapshot(runs=(run,))], smoothing=smoothing)
    growing = LossChart()
    for turn, first in enumerate(range(0, 4000, EVERY)):
        for rank in range(RANKS if turn != 40 else 1):  # ranks do not log together
            logged(history, first, rank)
        shown: View = replace(view, history=history, settings=replace(view.settings, per_rank=turn % 10 == 9))
        assert growing.draw(shown, "loss", 60, 12) == LossChart().draw(shown, "loss", 60, 12)


def test_another_metric_does_not_continue_the_series() -> None:
    history = History()
    for rank in range(RANKS):
        logged(history, 0, rank)
        history.memory.add(Points("run-1", rank, "lr", (0, 1), (0.0, 1.0), (float(rank), 5.0)))
    view = replace(dashboards.view_of([samples.snapshot(runs=(samples.run(world_size=RANKS),))]), history=history)
    chart = LossChart()
    for metric in ("loss", "lr", "loss"):
        assert chart.draw(view, metric, 60, 12) == LossChart().draw(view, metric, 60, 12)
