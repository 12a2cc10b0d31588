"""The keys that work everywhere, on every screen over the dashboard: each changes the screen, or says why it does not.

``test_every_key`` presses them in real terminals, on the screens that begin a program.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from textual.screen import Screen

from gputop.tui.app import GputopApp
from gputop.tui.screens.compare import CompareScreen
from gputop.tui.state.keys import APP_KEYS
from gputop.tui.state.view import View
from tests import samples
from tests.tui.kit import text_of, whole_app
from tests.tui.screens.test_sizes import SCREENS

OPENED: dict[str, Callable[[View], Screen[object]]] = {
    **{name: build for name, (_, build) in SCREENS.items() if name not in ("palette", "signals", "stop", "settings")},
    "compare": lambda shown: CompareScreen((), None, shown),
}
"""Without those whose fields take every printable key."""
ELSEWHERE = ("leave", "draw_anew", "save_screen", "replay")
KEYS = [row.keys.split(",")[0] for row in APP_KEYS if not row.action.startswith(ELSEWHERE)]
NOTHING_TO_DO = {("launch", "l"), ("run", "plus"), ("run", "minus")}
"""The first goes to the recipes, where the screen begins; the others zoom on a run's screen, which ``test_every_key`` tests."""


def state(app: GputopApp) -> tuple[object, ...]:
    return app.screen, text_of(app), len(app._notifications), app.settings


@pytest.mark.parametrize("name", OPENED)
async def test_no_key_is_dead(name: str) -> None:
    app = whole_app(samples.ranks_on_one_gpu())
    dead = []
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        view = app.view
        assert view is not None
        for key in KEYS:
            if len(app.screen_stack) == 2:
                await app.push_screen(OPENED[name](view))
                app.show_view()
                await pilot.pause()
            before = state(app)
            await pilot.press(key)
            await pilot.pause()
            if state(app) == before and (name, key) not in NOTHING_TO_DO:
                dead.append(key)
            while len(app.screen_stack) > 3:
                app.pop_screen()
            app.clear_notifications()
            await pilot.pause()
    assert dead == []
