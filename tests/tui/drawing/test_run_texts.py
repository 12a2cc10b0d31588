"""The list of runs and what stands above a run's charts: the words and cells of runs that ended, have NaN, or long names."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from gputop.snapshot import Run
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


def test_less_than_one_sample_in_a_second_is_no_zero() -> None:
    base = samples.run(world_size=1)
    run = replace(base, ranks=(replace(base.ranks[0], metrics={**base.ranks[0].metrics, "samples_per_s": 0.4}),))
    view = dashboards.view_of([samples.snapshot(runs=(run,))])
    assert "samples/s 0.4" in plain(summary_lines(run, view, 160)[0])
    assert "0.4 samples/s" in plain(draw_training(view, LossChart(), 120, 12).lines[0])
    assert "0.4 samples/s" in plain(verdict_line(view, 160))
    assert " 0.4 " in plain(draw_ranks(run, view.snapshot, 120)[1])


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
