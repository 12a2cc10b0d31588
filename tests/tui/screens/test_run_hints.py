"""The last line of a run's screen names keys that do something there."""

from __future__ import annotations

from itertools import product

import pytest

from gputop.tui.screens.run import RunScreen
from gputop.tui.screens.run_hints import hints

STATES = list(product((False, True), repeat=4))


def labels(grid: bool = False, narrow: bool = False, listed: bool = False, zoomed: bool = False) -> list[str]:
    return [hint.what for hint in hints(grid=grid, narrow=narrow, listed=listed, zoomed=zoomed)]


@pytest.mark.parametrize("state", STATES)
def test_each_key_that_is_named_has_an_action(state: tuple[bool, bool, bool, bool]) -> None:
    grid, narrow, listed, zoomed = state
    found = hints(grid=grid, narrow=narrow, listed=listed, zoomed=zoomed)
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
