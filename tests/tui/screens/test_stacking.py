"""Each pane gets the rows that it needs, and a larger screen never shows less."""

from __future__ import annotations

import itertools

import pytest

from gputop.tui.screens.stacking import Need, stack
from tests import samples
from tests.tui import dashboards
from tests.tui.dashboards import DashboardApp

NEEDS = {"gpus": Need(3, 9), "training": Need(6, 0), "processes": Need(4, 10), "doctor": Need(2, 5)}
ORDER = ("gpus", "doctor", "training", "processes")


def test_the_loss_takes_what_the_others_leave() -> None:
    assert stack(50, NEEDS, ORDER, "training") == {"gpus": 9, "training": 26, "processes": 10, "doctor": 5}


def test_the_least_important_pane_leaves_first() -> None:
    assert stack(14, NEEDS, ORDER, "training") == {"gpus": 6, "training": 6, "processes": 0, "doctor": 2}
    assert stack(6, NEEDS, ORDER, "training") == {"gpus": 4, "training": 0, "processes": 0, "doctor": 2}
    assert stack(1, NEEDS, ORDER, "training")["gpus"] == 1


def test_rows_without_a_use_above_go_to_the_last_pane() -> None:
    """At 80x24, a lost GPU left no room for the loss, and its pane ended in five blank rows above three bare headlines."""
    needs = {"gpus": Need(12, 12), "training": Need(6, 0), "processes": Need(4, 10), "doctor": Need(4, 4)}
    assert stack(21, needs, ORDER, "training") == {"gpus": 12, "training": 0, "processes": 0, "doctor": 9}


@pytest.mark.parametrize("room", range(1, 80))
def test_all_rows_are_given_and_more_room_gives_no_pane_less_than_it_needs(room: int) -> None:
    now, before = stack(room, NEEDS, ORDER, "training"), stack(room - 1, NEEDS, ORDER, "training")
    assert sum(now.values()) == room
    assert all(now[name] >= min(before[name], NEEDS[name].least) for name in NEEDS)


async def test_a_larger_screen_never_shows_less() -> None:
    """120x40 had shorter bars and fewer columns than 80x24."""
    app = DashboardApp(dashboards.one_gpu())
    async with app.run_test(size=(80, 24)) as pilot:
        seen: list[tuple[int, ...]] = []
        for size in ((80, 24), (100, 30), (120, 40), (160, 50)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            await pilot.pause()
            panes = app.dashboard.panes
            seen.append(tuple(pane.size.height if pane.display else 0 for pane in panes))
            assert sum(seen[-1]) == size[1] - 3
            rows = app.text()
            assert all(any(row[1:].lstrip("▸ ").startswith(f"{index} ") for row in rows) for index in range(8))
        for smaller, larger in itertools.pairwise(seen):
            assert all(before <= after for before, after in zip(smaller, larger, strict=True)), seen


async def test_an_empty_pane_is_one_line() -> None:
    idle = tuple(samples.idle_device(index) for index in range(8))
    snapshots = [samples.snapshot(tick, devices=idle, processes=(), runs=(), points=()) for tick in range(5)]
    app = DashboardApp(dashboards.view_of(snapshots))
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        assert app.dashboard.doctor.size.height == 1
        assert any("4 Doctor: No problem found" in row for row in app.text())
