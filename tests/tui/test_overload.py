"""Keys on a machine whose readings arrive faster than the screen processes them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gputop.settings.values import Settings
from gputop.snapshot import Snapshot
from gputop.tui.app import GputopApp
from tests import samples
from tests.tui.kit import StillFeed, text_of

TURNS = 200


class BusyFeed(StillFeed):
    """Always has one more snapshot once the last one has been processed, which takes a while; ends after many."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = 0

    def start(self, notify: Callable[[], object]) -> None:
        self.notify = notify
        notify()

    def drain(self) -> list[Snapshot]:
        self.turns += 1
        time.sleep(0.02)
        if self.turns < TURNS:
            self.notify()
        first = samples.snapshot()
        return [replace(first, sequence=self.turns, monotonic_s=first.monotonic_s + self.turns)]


async def test_a_key_is_answered_while_readings_come_without_a_pause() -> None:
    feed: Any = BusyFeed()
    app = GputopApp(feed, Settings())
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.press("question_mark")
        await pilot.pause()
        assert "help" in text_of(app).splitlines()[0]
        assert feed.turns < TURNS
