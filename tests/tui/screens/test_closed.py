"""A closed screen draws nothing more, whatever was still to be drawn on it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.tui.screens.base import SubScreen
from tests.tui.screens.test_palette import whole_app


@pytest.mark.parametrize("key", ["d", "l", "o", "question_mark", "f2", "enter"])
async def test_a_closed_screen_is_not_drawn(key: str) -> None:
    app = whole_app()
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        await pilot.press(key)
        await pilot.pause()
        screen = app.screen
        assert isinstance(screen, SubScreen)
        assert app.view is not None
        await app.pop_screen()
        screen.show(replace(app.view, settings=replace(app.view.settings, interval_s=7.0)))
        screen.settle(now=True)
