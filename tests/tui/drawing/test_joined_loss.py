"""The loss of a run in which only rank 0's script opened the run, so that its automatic values are named "auto/…"."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from gputop.history.history import History
from gputop.snapshot import Points
from gputop.tui.drawing import run_numbers
from tests import samples


def test_the_loss_is_of_all_ranks_whatever_it_is_named() -> None:
    run = samples.run(2)
    ranks = (replace(run.ranks[0], metrics={"auto/loss": 1.0}), replace(run.ranks[1], metrics={"loss": 3.0}))
    run = replace(run, ranks=ranks)
    assert run_numbers.loss_name(run) == "loss"
    assert run_numbers.loss(run) == 2.0
    history = History()
    points = tuple(
        Points(run.run_id, rank, name, (1, 2), (1.0, 2.0), (value, value))
        for rank, name, value in ((0, "auto/loss", 1.0), (1, "loss", 3.0))
    )
    history.observe(samples.snapshot(0, runs=(run,), points=points))
    assert sorted(history.metric(run.run_id, "loss")) == [0, 1]


@pytest.mark.parametrize("lost", [math.nan, math.inf])
def test_a_value_that_is_no_number_is_not_hidden_by_rank_0(lost: float) -> None:
    run = samples.run(2)
    ranks = (replace(run.ranks[0], metrics={"loss": 1.0}), replace(run.ranks[1], metrics={"loss": lost}))
    found = run_numbers.loss(replace(run, ranks=ranks))
    assert found is not None
    assert not math.isfinite(found)
