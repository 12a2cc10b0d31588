"""The list of runs and what stands above a run's charts: the words and cells of runs that ended, have NaN, or long names."""

from __future__ import annotations

import math
import random
import re
from dataclasses import replace

import pytest

from gputop import units
from gputop.history.history import History
from gputop.snapshot import Points, Run
from gputop.tui.drawing import run_numbers
from gputop.tui.drawing.gpus.verdict import verdict_line
from gputop.tui.drawing.line import plain
from gputop.tui.drawing.loss import LossChart
from gputop.tui.drawing.ranks import draw_ranks
from gputop.tui.drawing.runs.listing import run_lines
from gputop.tui.drawing.runs.summary import summary_lines
from gputop.tui.drawing.training import draw_training
from tests import samples
from tests.tui import dashboards

NOW = samples.EPOCH + 60.0


def ended(state: str) -> Run:
    return replace(samples.run(), state=state, created_at=samples.EPOCH - 90.0, ended_at=samples.EPOCH)  # type: ignore[arg-type]


@pytest.mark.parametrize(("state", "words"), [("finished", "took 1m30s"), ("failed", "took 1m30s"), ("running", "so far ")])
def test_a_run_that_ended_took_its_time(state: str, words: str) -> None:
    run = ended(state) if state != "running" else samples.run()
    text = plain(summary_lines(run, dashboards.view_of([samples.snapshot(runs=(run,))]), 160)[0])
    assert words in text
    assert ("so far" in text) == (state == "running")


def test_less_than_one_sample_per_second_is_not_zero() -> None:
    base = samples.run(world_size=1)
    run = replace(base, ranks=(replace(base.ranks[0], metrics={**base.ranks[0].metrics, "samples_per_s": 0.4}),))
    view = dashboards.view_of([samples.snapshot(runs=(run,))])
    assert "samples/s 0.4" in plain(summary_lines(run, view, 160)[0])
    assert "0.4 samples/s" in plain(draw_training(view, LossChart(), 120, 12).lines[0])
    assert "0.4 samples/s" in plain(verdict_line(view, 160))
    assert " 0.4 " in plain(draw_ranks(run, view.snapshot, 120)[1])


def test_a_run_without_a_throughput_has_its_steps_as_pace() -> None:
    base = samples.run()
    ranks = tuple(
        replace(rank, metrics={name: value for name, value in rank.metrics.items() if not name.endswith("_per_s")})
        for rank in base.ranks
    )
    view = dashboards.view_of([samples.snapshot(runs=(replace(base, ranks=ranks),))])
    assert view.run is not None
    steps = run_numbers.steps_per_s(view.run, view.history)
    assert steps is not None
    assert f"{units.rounded(steps)} steps/s" in plain(verdict_line(view, 160))
    assert f"steps/s {units.rounded(steps)}" in plain(summary_lines(view.run, view, 160)[0])
    assert "steps/s" not in plain(verdict_line(dashboards.healthy(), 160)), "a throughput says more"


def test_ranks_on_both_sides_of_an_epoch_have_reached_the_earlier_one() -> None:
    base = samples.run()
    ranks = tuple(replace(rank, metrics={**rank.metrics, "epoch": 11.0 + (rank.rank == 0)}) for rank in base.ranks)
    view = dashboards.view_of([samples.snapshot(runs=(replace(base, ranks=ranks),))])
    assert view.run is not None
    assert "epoch 11   " in " ".join(plain(part) for part in summary_lines(view.run, view, 200))
    assert re.search(r"epoch 11(?![.\d])", plain(draw_training(view, LossChart(), 158, 12).lines[0]))


def test_a_value_that_is_no_number_is_red_in_the_table_of_ranks() -> None:
    run = samples.run()
    first, *others = run.ranks
    run = replace(run, ranks=(replace(first, metrics={**first.metrics, "loss": math.nan}), *others))
    _, row, healthy, *_ = draw_ranks(run, samples.snapshot(runs=(run,)), 120, metric="loss")
    assert [span.style for span in row if "NaN" in span.text] == ["bad"]
    assert "bad" not in {span.style for span in healthy}


def named(name: str, **changes: object) -> Run:
    return replace(samples.run(), run_id=name, name=name, **changes)  # type: ignore[arg-type]


def test_a_name_is_whole_where_other_columns_leave_it_room() -> None:
    long = named("llama-160m lr 3e-2 b", tags=("sweep",))
    heading, row = (plain(part) for part in run_lines((long,), 40, NOW))
    assert " llama-160m lr 3e-2 b " in row
    assert "sweep" in row
    assert "TAGS" in heading
    assert len(row) == 40
    short = plain(run_lines((named("gpt"),), 40, NOW)[0])
    assert [word for word in ("STATE", "TOOK") if word in short] == ["STATE", "TOOK"]


def test_long_tags_leave_the_name_its_cells() -> None:
    row = plain(run_lines((named("gpt", tags=("a-very-long-tag", "another")),), 40, NOW)[1])
    assert "a-very-lo…" in row


@pytest.mark.parametrize(("slope", "arrow"), [(0.0, "→"), (-0.01, "↓"), (0.01, "↑")])
def test_only_a_change_beyond_the_noise_is_a_trend(slope: float, arrow: str) -> None:
    """A run with a learning rate of 0 had "loss 8.63 ↓"."""
    noise = random.Random(1)
    values = tuple(8.0 + slope * step + noise.gauss(0, 2) for step in range(1000))
    found = set()
    for end in range(200, 1001, 100):
        history = History()
        steps = tuple(range(end))
        history.memory.add(Points("run-1", 0, "loss", steps, tuple(map(float, steps)), values[:end]))
        found.add(run_numbers.trend(samples.run(1), "loss", history))
    assert found == {arrow} if not slope else arrow in found


def test_the_trend_of_a_restarted_run_is_that_of_its_new_attempt() -> None:
    """Its loss begins high again, and rose for as long as the earlier attempt took."""
    history = History()
    for start, number in ((0.0, 600), (1000.0, 80)):
        steps = tuple(range(number))
        times = tuple(start + step for step in steps)
        history.memory.add(Points("run-1", 0, "loss", steps, times, tuple(9.0 * 0.99**step for step in steps)))
    run = samples.run(1)
    assert run_numbers.trend(run, "loss", history) == "↑"
    again = replace(run, ranks=(replace(run.ranks[0], restarted_at=1000.0), *run.ranks[1:]))
    assert run_numbers.trend(again, "loss", history) == "↓"
    just_now = replace(run, ranks=(replace(run.ranks[0], restarted_at=1075.0), *run.ranks[1:]))
    assert run_numbers.trend(just_now, "loss", history) == ""
