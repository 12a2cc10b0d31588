"""However often screens are opened, and whatever is pasted, the program's memory stays bounded."""

from __future__ import annotations

import gc
import time
import weakref
from collections import Counter
from collections.abc import Callable

from textual.pilot import Pilot
from textual.strip import Strip
from textual.widget import Widget

from gputop.questions import Answer, Question
from gputop.settings.values import Settings
from gputop.snapshot import Snapshot
from gputop.tui.app import GputopApp
from gputop.tui.screens.help import HelpScreen
from gputop.tui.screens.launch.screen import LaunchScreen
from tests import samples
from tests.real_processes import DEADLINE_S

ROUND = (
    ("d", "down", "enter", "escape"),
    ("question_mark", "escape"),
    ("f2", "escape"),
    ("l", "escape"),
    ("1", "enter", "escape"),
    ("2", "enter", "escape"),
    ("3", "down", "enter", "escape"),
    ("3", "down", "e", "escape"),
    ("3", "down", "k", "escape"),
    ("w", "escape"),
)
"""Keys that open each screen and close it."""


class SampleFeed:
    """A live feed of samples, which arrive when the test asks for one."""

    kind = "live"
    host = None

    def __init__(self) -> None:
        self._waiting: list[Snapshot] = []
        self._tick = 0
        self._notify: Callable[[], object] = lambda: None

    def start(self, notify: Callable[[], object]) -> None:
        self._notify = notify

    def push(self) -> None:
        self._waiting.append(samples.ranks_on_one_gpu(self._tick))
        self._tick += 1
        self._notify()

    def drain(self) -> list[Snapshot]:
        found, self._waiting = self._waiting, []
        return found

    def age_s(self, snapshot: Snapshot) -> float:
        return 0.0

    def ask(self, question: Question) -> None:
        pass

    def take_answers(self) -> list[Answer]:
        return []

    def problem(self) -> str | None:
        return None

    def status(self) -> str | None:
        return None

    def set_interval(self, interval_s: float) -> None:
        pass

    def want_pcie(self, wanted: bool) -> None:
        pass

    def close(self) -> None:
        pass


def alive() -> Counter[str]:
    gc.collect()
    kinds: dict[type, str] = {Strip: "lines", Widget: "widgets"}
    return Counter(
        name for item in gc.get_objects() for kind, name in kinds.items() if type(item) is kind or issubclass(type(item), kind)
    )


async def test_what_a_closed_screen_drew_is_freed() -> None:
    feed = SampleFeed()
    app = GputopApp(feed, Settings())  # type: ignore[arg-type]
    opened: set[str] = set()

    async def open_all(pilot: Pilot[None]) -> None:
        for keys in ROUND:
            for key in keys:
                await pilot.press(key)
                opened.add(type(app.screen).__name__)
            feed.push()
            until = time.monotonic() + DEADLINE_S
            while len(app.screen_stack) != 2 and time.monotonic() < until:
                await pilot.pause(0.01)
            assert len(app.screen_stack) == 2, keys

    async with app.run_test(size=(160, 50)) as pilot:
        feed.push()
        await pilot.pause()
        await open_all(pilot)
        # A stopped timer keeps its screen until it would have rung, a second at most.
        await pilot.pause(1.5)
        before = after = alive()
        await open_all(pilot)
        until = time.monotonic() + DEADLINE_S
        while time.monotonic() < until:
            await pilot.pause(0.1)
            after = alive()
            if after["widgets"] <= before["widgets"] + 5 and after["lines"] <= before["lines"] + 200:
                break
    assert len(opened) == len(ROUND) + 1, opened
    assert after["widgets"] <= before["widgets"] + 5, (before, after)
    assert after["lines"] <= before["lines"] + 200, (before, after)


async def test_a_closed_screen_is_freed_even_if_the_collector_does_not_look() -> None:
    feed = SampleFeed()
    app = GputopApp(feed, Settings())  # type: ignore[arg-type]
    thresholds = gc.get_threshold()
    try:
        async with app.run_test(size=(160, 50)) as pilot:
            feed.push()
            await pilot.pause()
            gc.set_threshold(0)
            await pilot.press("question_mark")
            screen = weakref.ref(app.screen)
            assert isinstance(screen(), HelpScreen)
            await pilot.press("escape")
            until = time.monotonic() + DEADLINE_S
            while screen() is not None and time.monotonic() < until:
                await pilot.pause(0.1)
            assert screen() is None
    finally:
        gc.set_threshold(*thresholds)


async def test_no_thread_keeps_a_closed_launch_screen() -> None:
    feed = SampleFeed()
    app = GputopApp(feed, Settings())  # type: ignore[arg-type]
    async with app.run_test(size=(160, 50)) as pilot:
        feed.push()
        await pilot.pause()
        await pilot.press("l")
        screen = weakref.ref(app.screen)
        assert isinstance(screen(), LaunchScreen)
        await app.workers.wait_for_complete()  # its jobs are polled in a thread
        await pilot.press("escape")
        until = time.monotonic() + DEADLINE_S
        while screen() is not None and time.monotonic() < until:
            await pilot.pause(0.1)
            gc.collect()
        assert screen() is None, [type(item) for item in gc.get_referrers(screen())]
