"""The grid of a run's metrics: its shape, its search, its pages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.pilot import Pilot

from gputop.history.history import History
from gputop.snapshot import Points
from gputop.tui.drawing.runs.grid import CELL_COLUMNS_MIN, found, shape_of
from gputop.tui.screens.run.chart import RunChart
from gputop.tui.screens.run.screen import RunScreen
from gputop.tui.widgets.metric_grid import MetricGrid
from tests import samples
from tests.tui.kit import ScreenApp, text_of, view_of


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 100))
def test_a_page_fits_its_pane(count: int, columns: int, lines: int) -> None:
    shape = shape_of(count, columns, lines)
    assert shape.across * shape.columns + 2 * (shape.across - 1) <= columns
    assert shape.down * shape.lines <= max(lines, 1)
    assert shape.across == 1 or shape.columns >= CELL_COLUMNS_MIN
    assert shape.across <= count


def test_a_search_needs_every_word() -> None:
    names = ("loss", "val/loss", "val/acc", "Layer1/norm")
    assert found(names, "") == names
    assert found(names, "VAL acc") == ("val/acc",)
    assert found(names, "layer") == ("Layer1/norm",)
    assert found(names, "none") == ()


def many_metrics() -> tuple[Points, ...]:
    steps = tuple(range(100))
    times = tuple(samples.EPOCH - 600 + step for step in steps)
    more = tuple(
        Points("run-1", 0, f"layer{number}/norm", steps, times, tuple(float(number + step % 7) for step in steps))
        for number in range(30)
    )
    return samples.loss_points() + more


async def settle(pilot: Pilot[None]) -> None:
    for _ in range(4):
        await pilot.pause()


@pytest.mark.parametrize(("size", "pages"), [((160, 50), 2), ((80, 24), 8)])
async def test_all_metrics_are_a_key_away(size: tuple[int, int], pages: int) -> None:
    screen = RunScreen("run-1")
    app = ScreenApp(screen, view_of(samples.snapshot(points=many_metrics())))
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        await pilot.press("g")
        await settle(pilot)
        shown = text_of(app)
        assert f"31 metrics, page 1 of {pages}" in shown
        assert "▸loss" in shown
        assert "layer1/norm" in shown
        assert "On the same axis" not in shown
        await pilot.press("pagedown")
        await settle(pilot)
        assert f"page 2 of {pages}" in text_of(app)
        await pilot.press("slash", *"r29q", "backspace", "enter")
        await settle(pilot)
        assert "1 of 31 metrics  / r29" in text_of(app)
        assert "▸layer29/norm" in text_of(app)
        await pilot.press("enter")
        await settle(pilot)
        assert screen.chart.metric == "layer29/norm"
        assert "metric 31 of 31" in text_of(app)
        await pilot.press("g", "escape")
        await settle(pilot)
        assert "31 metrics, page" in text_of(app), "the first Esc clears the search"
        await pilot.press("escape")
        await settle(pilot)
        assert app.screen is screen
        assert "On the same axis" in text_of(app)


async def test_a_click_chooses_and_a_second_one_opens() -> None:
    screen = RunScreen("run-1")
    app = ScreenApp(screen, view_of(samples.snapshot(points=many_metrics())))
    async with app.run_test(size=(160, 50)) as pilot:
        await settle(pilot)
        await pilot.press("g")
        await settle(pilot)
        grid = screen.query_one(MetricGrid)
        await pilot.click(MetricGrid, offset=(grid.size.width - 10, 10))
        await settle(pilot)
        assert grid.chosen == "layer4/norm"
        await pilot.click(MetricGrid, offset=(grid.size.width - 10, 10))
        await settle(pilot)
        assert screen.chart.metric == "layer4/norm"
        assert not screen.has_class("grid")


def test_a_grid_without_room_says_nothing_on_its_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = MetricGrid()
    shown: list[object] = []
    monkeypatch.setattr(grid, "set_content", lambda lines, **_: shown.append(tuple(lines)))
    grid.set_metrics(("loss",), lambda name, width, height: None)
    assert shown == [()]


def test_evaluations_follow_the_loss_though_they_appear_last() -> None:
    seen, steps = History(), tuple(range(9))
    times = tuple(samples.EPOCH + step for step in steps)
    names = ("step_s", "loss", "phase/backward", "val_loss", "train_acc", "val_acc")
    points = tuple(Points("run-1", 0, name, steps, times, tuple(map(float, steps))) for name in names)
    seen.observe(samples.snapshot(0, runs=(samples.run(1),), points=points))
    chart = RunChart()
    chart.take_names("run-1", seen)
    assert chart.names == ("loss", "val_loss", "val_acc", "step_s", "phase/backward", "train_acc")
