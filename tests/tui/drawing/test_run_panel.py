"""Beside the loss: progress, the parts of a step, and the rank that the others wait for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.history.history import History
from gputop.losses import are_automatic
from gputop.snapshot import Points, Run
from gputop.tui.drawing import run_numbers
from gputop.tui.drawing.line import plain, width
from gputop.tui.drawing.loss import LossChart
from gputop.tui.drawing.ranks import draw_ranks, phase_shares
from gputop.tui.drawing.run_panel import PANEL_CELLS, panel_lines, slowest_rank, step_shares
from gputop.tui.drawing.training import draw_training
from gputop.tui.state.view import View
from tests import samples
from tests.tui import dashboards


def split_run(*waits_s: float, **metrics: float) -> Run:
    """A run of steps of 300 ms; each rank waits this long of the 200 ms of its backward pass."""
    base = samples.run(world_size=len(waits_s))
    parts = {"step_s": 0.3, "phase/data": 0.015, "phase/forward": 0.06, "phase/backward": 0.2, "phase/optimizer": 0.01}
    ranks = tuple(
        replace(rank, metrics={**rank.metrics, **parts, "phase/communication": waits, **metrics})
        for rank, waits in zip(base.ranks, waits_s, strict=True)
    )
    return replace(base, ranks=ranks)


def view_of(run: Run, **settings: object) -> View:
    return dashboards.view_of([samples.snapshot(runs=(run,))], **settings)


def test_the_parts_of_a_step_add_up() -> None:
    shares = step_shares(split_run(0.06, 0.06))
    assert shares == pytest.approx({"data": 0.05, "fwd": 0.2, "bwd": 0.2 / 0.3 - 0.2, "wait": 0.2, "opt": 0.01 / 0.3})
    assert sum(shares.values()) < 1
    assert step_shares(samples.run()) == {}
    assert "data" not in step_shares(split_run(0.06, **{"phase/data": 9.0})), "a part longer than its step is another step's"


def test_parts_of_several_steps_take_no_more_than_a_step() -> None:
    run = split_run(0.0, **{"phase/forward": 0.24, "phase/backward": 0.24, "phase/data": 0.0, "phase/optimizer": 0.0})
    assert step_shares(run) == pytest.approx({"data": 0.0, "fwd": 0.5, "bwd": 0.5, "wait": 0.0, "opt": 0.0})
    assert phase_shares(run.ranks[0]) == pytest.approx({"data": 0.0, "fwd": 0.5, "bwd": 0.5, "wait": 0.0, "opt": 0.0})


def test_a_step_is_divided_by_the_times_on_the_gpu_where_they_are_known() -> None:
    """Seen on an H200: the host waits in the optimizer's call, as its queue is full, for a backward pass on the GPU."""
    host = {"step_s": 0.098, "phase/forward": 0.0006, "phase/backward": 0.038, "phase/optimizer": 0.051, "phase/data": 0.008}
    device = {"cuda/step_s": 0.09, "cuda/forward_s": 0.028, "cuda/backward_s": 0.05, "cuda/optimizer_s": 0.0072}
    run = split_run(0.0, **host, **device)
    expected = {"data": 1 - 0.0852 / 0.09, "fwd": 0.028 / 0.09, "bwd": 0.05 / 0.09, "wait": 0.0, "opt": 0.08}
    assert step_shares(run) == pytest.approx(expected), "and data, which the host fetches meanwhile, takes only the rest"
    assert phase_shares(run.ranks[0]) == pytest.approx(expected)
    rows = [plain(row) for row in panel_lines(view_of(run), run, 20)]
    assert "one step 90 ms" in rows
    compiled = split_run(0.0, **host, **{name: took for name, took in device.items() if name != "cuda/forward_s"})
    assert "fwd" not in step_shares(compiled), "the host's time for it is not what the GPU takes"


def test_the_table_of_ranks_divides_a_step_as_the_panel_does() -> None:
    run = split_run(0.06, 0.06)
    assert phase_shares(run.ranks[0]) == pytest.approx(step_shares(run))
    heading, first, *_ = (plain(row) for row in draw_ranks(run, samples.snapshot(runs=(run,)), 110))
    assert "DATA   FWD   BWD  WAIT   OPT" in heading
    assert "5%   20%   47%   20%    3%" in first


def test_the_rank_that_waits_for_nobody_is_the_slowest() -> None:
    run = split_run(0.06, 0.05, 0.0, 0.06)
    slowest = slowest_rank(run)
    assert slowest is not None
    assert slowest.rank == 2
    assert slowest_rank(split_run(0.06, 0.05, 0.06)) is None
    assert slowest_rank(split_run(0.001, 0.0)) is None, "nobody waits"
    rows = [plain(row) for row in panel_lines(view_of(run), run, 20)]
    assert [row for row in rows if "slowest" in row] == ["   2       300     0%       0  ◂ slowest"]


def test_the_panel_stands_beside_the_chart_of_a_wide_pane_only() -> None:
    view = view_of(split_run(0.06, 0.0, 0.06, 0.06))
    wide = draw_training(view, LossChart(), 158, 20).lines
    shown = "\n".join(map(plain, wide))
    for part in ("step 1 240 of 5 000  25%", "one step 300 ms", "data 5%  fwd 20%  bwd 52%  wait 15%  opt 3%", "◂ slowest"):
        assert part in shown, part
    assert all(width(row) <= 158 for row in wide)
    assert len(wide) == 20
    assert "one step" not in "\n".join(map(plain, draw_training(view, LossChart(), 98, 20).lines))
    ascii_lines = panel_lines(view_of(split_run(0.06, 0.0, 0.06, 0.06), ascii=True), split_run(0.06, 0.0), 20)
    assert all(plain(row).isascii() for row in ascii_lines)


@pytest.mark.parametrize("height", range(20))
def test_the_panel_never_outgrows_its_room(height: int) -> None:
    run = split_run(*[0.06] * 8)
    lines = panel_lines(view_of(run), run, height)
    assert len(lines) <= height
    assert all(width(row) <= PANEL_CELLS for row in lines)


def test_the_pace_is_that_of_the_slowest_rank_over_the_last_minute() -> None:
    """Ten minutes at a step a second; then rank 0 takes ten steps a second, and rank 1 four."""
    points = []
    for rank, quick in ((0, 10), (1, 4)):
        times = [float(second) for second in range(600)] + [600.0 + step / quick for step in range(90 * quick)]
        points.append(Points("run-1", rank, "loss", tuple(range(len(times))), tuple(times), tuple(1.0 for _ in times)))
    history = History()
    history.observe(samples.snapshot(points=tuple(points)))
    assert run_numbers.steps_per_s(samples.run(world_size=2), history) == pytest.approx(4.0)


def behind(run: Run, logged: dict[int, tuple[int, ...]]) -> tuple[list[str], set[str]]:
    """What the panel says of each rank's distance, and in which styles, after these ranks logged a loss at these steps."""
    history = History()
    points = tuple(
        Points("run-1", rank, "loss", steps, tuple(float(step) for step in steps), tuple(1.0 for _ in steps))
        for rank, steps in logged.items()
    )
    history.observe(samples.snapshot(runs=(run,), points=points))
    lines = panel_lines(replace(view_of(run), history=history), run, 30)
    rows = lines[next(place for place, row in enumerate(lines) if plain(row).startswith("rank")) + 1 :]
    return [row[3].text.strip() for row in rows], {row[3].style for row in rows}


def at_steps(*steps: int | None, automatic: tuple[int | None, ...] = (), logs: tuple[int, ...] = (0, 1, 2)) -> Run:
    """Ranks at these steps, of which some log values of their own."""
    base = split_run(*[0.06] * len(steps))
    ranks = []
    for rank, step, counted in zip(base.ranks, steps, automatic or (None,) * len(steps), strict=True):
        metrics = {name: value for name, value in rank.metrics.items() if rank.rank in logs or are_automatic((name,))}
        ranks.append(replace(rank, step=step, optimizer_step=counted, metrics=metrics))
    return replace(base, ranks=tuple(ranks))


def test_a_rank_that_logs_rarely_is_not_behind() -> None:
    run = at_steps(118, 110, 90)
    every_tenth = {0: tuple(range(119)), 1: tuple(range(0, 111, 10)), 2: tuple(range(0, 91, 10))}
    assert behind(run, every_tenth) == (["0", "0", "28"], {"dim", "warn"})


def test_ranks_are_behind_by_their_optimizer_steps() -> None:
    """Rank 0 logs its epochs; what automatic tracking counts is in ``optimizer_step``, or in ``step`` of the other ranks."""
    assert behind(at_steps(3, 4000, 3990, automatic=(4000, None, None), logs=(0,)), {}) == (["0", "0", "10"], {"dim", "warn"})


def test_steps_that_count_different_things_say_nothing_of_who_is_behind() -> None:
    run = at_steps(3, 4000, None, automatic=(None, 4000, None), logs=(0, 1))
    assert behind(run, {})[0] == ["N/A"] * 3


def test_what_was_read_at_once_has_no_pace() -> None:
    """The output of an untracked run before gputop read it: 10,000 steps of one time, then two steps a second."""
    past = Points("run-1", 0, "loss", tuple(range(10_000)), (600.0,) * 10_000, (1.0,) * 10_000)
    run, history = samples.run(world_size=1), History()
    history.observe(samples.snapshot(points=(past,)))
    assert run_numbers.steps_per_s(run, history) is None
    now = Points("run-1", 0, "loss", (10_001, 10_003, 10_005), (601.0, 602.0, 603.0), (1.0,) * 3)
    history.observe(samples.snapshot(1, points=(now,)))
    assert run_numbers.steps_per_s(run, history) == pytest.approx(2.0)


@pytest.mark.parametrize(("step", "left"), [(3, 497.0), (500, 0.0), (501, None)])
def test_a_run_that_continues_after_its_last_step_has_no_time_left(step: int, left: float | None) -> None:
    base = samples.run(world_size=1)
    rank = replace(base.ranks[0], step=step, optimizer_step=None, facts={"progress": {"total_steps": 500}})
    run, history = replace(base, ranks=(rank,)), History()
    history.observe(samples.snapshot(points=(Points("run-1", 0, "loss", (1, 2, 3), (1.0, 2.0, 3.0), (1.0,) * 3),)))
    assert run_numbers.seconds_left(run, history) == left
