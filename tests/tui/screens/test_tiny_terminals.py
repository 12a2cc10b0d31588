"""Terminals of one column or one row: every screen survives a resize to them and back, and every row keeps its width."""

from __future__ import annotations

import pytest
from textual.screen import Screen

from gputop.tui.screens.compare import CompareScreen
from gputop.tui.screens.dashboard import DashboardScreen
from gputop.tui.screens.doctor import DoctorScreen
from gputop.tui.screens.gpu import GpuScreen
from gputop.tui.screens.help import HelpScreen
from gputop.tui.screens.launch.screen import LaunchScreen
from gputop.tui.screens.run.screen import RunScreen
from gputop.tui.screens.settings import SettingsScreen
from gputop.tui.screens.untracked import UntrackedScreen
from tests import samples
from tests.tui.kit import ScreenApp, text_of, view_of
from tests.tui.screens.test_untracked import run_of as untracked_run

SIZES = ((1, 1), (1, 24), (80, 1), (3, 30), (7, 7), (80, 24))


def screens() -> dict[str, Screen[object]]:
    return {
        "dashboard": DashboardScreen(),
        "doctor": DoctorScreen(),
        "gpu": GpuScreen(samples.device(0)),
        "help": HelpScreen(),
        "launch": LaunchScreen(),
        "run": RunScreen("run-1"),
        "untracked": UntrackedScreen(untracked_run()),
        "settings": SettingsScreen(view_of(), lambda _: None),
        "compare": CompareScreen((), None),
    }


@pytest.mark.parametrize("name", screens())
async def test_every_screen_survives_a_tiny_terminal(name: str) -> None:
    app = ScreenApp(screens()[name], view_of())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        before = text_of(app)
        for columns, rows in SIZES:
            await pilot.resize_terminal(columns, rows)
            app.give(app.view)
            await pilot.pause()
            assert app.size == (columns, rows)
            assert all(len(line) <= columns for line in text_of(app).splitlines())
        assert text_of(app) == before
