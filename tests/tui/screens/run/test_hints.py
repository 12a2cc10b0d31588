"""The last line of a run's screen names keys that do something there."""

from __future__ import annotations

from itertools import product

import pytest

from gputop.tui.screens.base import MORE, KeyHint, fitted
from gputop.tui.screens.dashboard import HINTS, hints_of
from gputop.tui.screens.launch.screen import LaunchScreen
from gputop.tui.screens.run.hints import hints
from gputop.tui.screens.run.screen import RunScreen

BACK = KeyHint("Esc", "back", "screen.back", 0)
STATES = list(product((False, True), repeat=5))


def labels(
    grid: bool = False, narrow: bool = False, listed: bool = False, zoomed: bool = False, live: bool = True
) -> list[str]:
    return [hint.what for hint in hints(grid=grid, narrow=narrow, listed=listed, zoomed=zoomed, live=live)]


@pytest.mark.parametrize("state", STATES)
def test_each_key_that_is_named_has_an_action(state: tuple[bool, ...]) -> None:
    grid, narrow, listed, zoomed, live = state
    found = hints(grid=grid, narrow=narrow, listed=listed, zoomed=zoomed, live=live)
    names = [hint.action.partition("(")[0] for hint in found if hint.action]
    assert names
    for name in names:
        where, _, action = name.partition(".")
        assert where == "app" or hasattr(RunScreen, f"action_{action}"), name
    assert len({hint.what for hint in found}) == len(found)


def test_what_is_visible_decides() -> None:
    assert {"one metric", "search", "large"} <= set(labels(grid=True))
    assert "search" not in labels()
    assert labels(narrow=True)[0] == "runs"
    assert {"charts", "unmark all"} <= set(labels(narrow=True, listed=True))
    assert "read" not in labels(narrow=True, listed=True)
    assert ("whole" in labels(zoomed=True), "whole" in labels()) == (True, False)


@pytest.mark.parametrize("state", STATES)
def test_a_wide_screen_says_how_to_query_and_stop_a_live_run(state: tuple[bool, ...]) -> None:
    grid, narrow, listed, zoomed, live = state
    wide = fitted((BACK, *hints(grid=grid, narrow=narrow, listed=listed, zoomed=zoomed, live=live)), 160)
    assert {"w", "k"} & {hint.key for hint in wide} == ({"w", "k"} if live else set())


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("columns", [60, 80, 100, 120, 160])
def test_omitted_hints_are_announced(state: tuple[bool, ...], columns: int) -> None:
    grid, narrow, listed, zoomed, live = state
    for named in ((BACK, *hints(grid=grid, narrow=narrow, listed=listed, zoomed=zoomed, live=live)), HINTS, LaunchScreen.HINTS):
        kept = fitted(named, columns)
        assert sum(len(hint.key) + len(hint.what) + 3 for hint in kept) - 1 <= columns
        if kept != tuple(named):
            assert MORE in kept
            assert {"/", ":", "Esc", "?", "q"} & {hint.key for hint in named} <= {hint.key for hint in kept}


@pytest.mark.parametrize("narrow", [False, True])
def test_the_tables_say_how_to_return_to_the_charts_and_name_no_key_of_theirs(narrow: bool) -> None:
    found = {hint.key: hint.what for hint in hints(table=True, grid=False, narrow=narrow, listed=False, zoomed=True, live=True)}
    assert found["t"] == "charts"
    assert not {"arrows", "+ -", "m", "0"} & found.keys()
    assert {"w", "k"} <= found.keys()


def test_a_tiny_screen_keeps_the_help() -> None:
    for columns in range(8, 60):
        kept = fitted(HINTS, columns)
        assert MORE in kept
        assert columns < 20 or kept[-1].key == "q"


@pytest.mark.parametrize("columns", [80, 100, 160])
def test_a_recording_names_how_to_move_in_it_and_nothing_that_it_cannot_do(columns: int) -> None:
    kept = [hint.key for hint in fitted(hints_of(None, replay=True), columns)]
    assert {"p", "( )", "{ }", "q"} <= set(kept)
    assert not {"l", "k"} & set(kept)
    assert not {"( )", "{ }"} & {hint.key for hint in hints_of(None)}
