"""A run that has stopped to log has no pace: what it did before is not what it does now."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.snapshot import Points, Run
from gputop.tui.drawing import run_numbers
from gputop.tui.drawing.gpus.verdict import verdict_line
from gputop.tui.drawing.line import plain
from gputop.tui.drawing.loss import LossChart
from gputop.tui.drawing.runs.summary import summary_lines
from gputop.tui.drawing.training import draw_training
from gputop.tui.state.view import View
from tests import samples
from tests.tui import dashboards

PACE = ("samples/s", "steps/s", "left", "J/sample")


def view_of(silent_s: float, gap_s: float = 1.0, state: str = "running") -> View:
    """A run that logged a step each ``gap_s``, the last one ``silent_s`` ago."""
    steps = tuple(range(100))
    times = tuple(samples.EPOCH - silent_s - gap_s * (99 - step) for step in steps)
    run = samples.run(world_size=1, step=99, state=state)
    ranks = tuple(replace(rank, state=state, last_log_at=times[-1]) for rank in run.ranks)  # type: ignore[arg-type]
    points = Points(run.run_id, 0, "loss", steps, times, tuple(1.0 for _ in steps))
    return dashboards.view_of([samples.snapshot(runs=(replace(run, ranks=ranks),), points=(points,))])


def shown(view: View) -> str:
    """Return the verdict, the training pane and what stands above a run's charts."""
    run = chosen(view)
    pane = draw_training(view, LossChart(), 160, 14)
    summary = summary_lines(run, view, 160)
    return "\n".join(map(plain, (verdict_line(view, 160), pane.title, *pane.lines, *summary)))


def chosen(view: View) -> Run:
    assert view.run is not None
    return view.run


@pytest.mark.parametrize(("silent_s", "gap_s"), [(0.0, 1.0), (50.0, 1.0), (250.0, 100.0)])
def test_a_run_that_logs_as_usual_shows_its_pace(silent_s: float, gap_s: float) -> None:
    view = view_of(silent_s, gap_s)
    assert run_numbers.silent_s(chosen(view), view.history, view.snapshot.time) is None
    text = shown(view)
    assert "samples/s" in text
    assert "steps/s" in text
    assert " left" in text
    assert "nothing" not in text


@pytest.mark.parametrize(
    ("silent_s", "gap_s", "state"), [(200.0, 1.0, "running"), (350.0, 100.0, "running"), (9.0, 1.0, "stalled")]
)
def test_a_silent_run_shows_for_how_long_and_no_pace(silent_s: float, gap_s: float, state: str) -> None:
    text = shown(view_of(silent_s, gap_s, state))
    assert [word for word in PACE if word in text] == []
    assert "nothing has been logged for" in text
    assert "nothing logged for" in text
    assert "loss" in text


def uneven(silent_s: float, gap_s: float = 1.0) -> View:
    """Two ranks, of which the second logged last ``silent_s`` before the first."""
    run = samples.run(world_size=2, step=99)
    now = samples.snapshot().time
    times = {rank: tuple(now - silent_s * rank - gap_s * (99 - step) for step in range(100)) for rank in (0, 1)}
    ranks = tuple(replace(rank, state="running", last_log_at=times[rank.rank][-1]) for rank in run.ranks)
    points = tuple(Points(run.run_id, rank, "loss", tuple(range(100)), at, (1.0,) * 100) for rank, at in times.items())
    return dashboards.view_of([samples.snapshot(runs=(replace(run, ranks=ranks),), points=points)])


def test_a_rank_that_stops_while_others_go_on_is_named() -> None:
    """It was "22m left", by the pace that the silent rank once had."""
    view = uneven(200.0)
    assert run_numbers.silent_ranks(chosen(view), view.history) == {1: pytest.approx(200.0)}
    text = shown(view)
    assert "rank 1 has logged nothing for 3m20s, others have" in text
    assert "nothing from rank 1 for 3m20s" in text
    assert " left" not in text


@pytest.mark.parametrize(("silent_s", "gap_s"), [(0.0, 1.0), (50.0, 1.0), (250.0, 100.0)])
def test_a_rank_that_logs_as_usual_is_not_silent(silent_s: float, gap_s: float) -> None:
    view = uneven(silent_s, gap_s)
    assert run_numbers.silent_ranks(chosen(view), view.history) == {}
    assert " left" in shown(view)
