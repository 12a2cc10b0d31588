"""Screens over a machine that has not answered yet: each says which screen it is, and what is waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gputop.jobs import store
from gputop.settings.values import Settings
from gputop.tui.app import GputopApp
from gputop.tui.screens.base import SubScreen
from gputop.tui.screens.doctor import DoctorScreen
from gputop.tui.screens.help import HelpScreen
from gputop.tui.screens.launch.screen import LaunchScreen
from tests.tui.kit import StillFeed, text_of
from tests.tui.screens.test_looks import settle


class SilentFeed(StillFeed):
    """Sends nothing."""

    def __init__(self, host: str | None) -> None:
        super().__init__()
        self.host = host  # type: ignore[assignment]


@pytest.mark.parametrize(("host", "waiting"), [(None, "starting …"), ("gpu1", "connecting to gpu1 …")])
@pytest.mark.parametrize("make", [LaunchScreen, HelpScreen, DoctorScreen])
async def test_the_header_names_the_screen_and_what_is_waited_for(
    host: str | None, waiting: str, make: Callable[[], SubScreen]
) -> None:
    feed: Any = SilentFeed(host)
    app = GputopApp(feed, Settings())
    async with app.run_test(size=(80, 24)) as pilot:
        screen = make()
        await app.push_screen(screen)
        for size in ((80, 24), (100, 30)):
            await pilot.resize_terminal(*size)
            await settle(pilot)
            head = text_of(app).splitlines()[0]
            assert f"› {screen.NAME}" in head
            assert waiting in head


@pytest.mark.parametrize("key", ["f5", "f6", "ctrl+s"])
async def test_a_start_before_the_first_reading_says_why_nothing_starts(key: str) -> None:
    """F5 did nothing, without a word."""
    feed: Any = SilentFeed(None)
    app = GputopApp(feed, Settings())
    async with app.run_test(size=(80, 24)) as pilot:
        await app.push_screen(LaunchScreen())
        await settle(pilot)
        await pilot.press(key)
        await settle(pilot)
        (said,) = [notice.message for notice in app._notifications]
        assert "Nothing can start before the GPUs are listed" in said
    assert store.list_jobs() == []
