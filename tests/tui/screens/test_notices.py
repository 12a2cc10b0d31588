"""A notice about a screen goes with that screen; a notice of what was done stays for its time."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets._toast import Toast

from gputop.questions import Misunderstood
from gputop.run_questions import RunsQuestion
from gputop.settings.values import Settings
from gputop.tui.app import GputopApp
from gputop.tui.terminal.screen_notice import ScreenNotice
from tests import samples
from tests.tui.kit import StillFeed, text_of, whole_app

WHERE_THE_RUNS_ARE = "The runs are on the left"


def header(pilot: Pilot[None]) -> str:
    return text_of(pilot.app).splitlines()[0]


async def test_a_notice_about_the_list_of_runs_goes_with_it() -> None:
    """It covered the dashboard's header for seconds."""
    app = whole_app()
    async with app.run_test(size=(160, 50), notifications=True) as pilot:
        await pilot.press("o", "o")
        await pilot.pause()
        assert WHERE_THE_RUNS_ARE in header(pilot)
        await pilot.press("escape")
        await pilot.pause()
        assert WHERE_THE_RUNS_ARE not in header(pilot)
        assert samples.snapshot().host.hostname in header(pilot)
        await pilot.press("o")
        await pilot.pause()
        assert WHERE_THE_RUNS_ARE not in header(pilot)


async def test_a_notice_whose_screen_was_closed_at_once_does_not_appear() -> None:
    app = whole_app()
    async with app.run_test(size=(160, 50), notifications=True) as pilot:
        await pilot.press("o")
        await pilot.pause()
        app.screen.notify("about the runs")
        app.pop_screen()
        await pilot.pause()
        assert not app.screen.query(Toast)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (("e",), "Choose a process first"),
        (("k",), "Choose a process or a run first"),
        (("w",), "Choose a run first"),
        (("P",), "Choose a tracked run first"),
        (("y",), "There is nothing to copy here"),
    ],
)
async def test_what_a_key_needs_on_the_dashboard_is_not_said_over_another_screen(keys: tuple[str, ...], said: str) -> None:
    app = whole_app(replace(samples.snapshot(), devices=(), runs=(), processes=(), process_runs=()))
    async with app.run_test(size=(160, 50), notifications=True) as pilot:
        await pilot.pause()
        await pilot.press("3", *keys)
        await pilot.pause()
        assert said in header(pilot)
        await pilot.press("question_mark")
        await pilot.pause()
        assert said not in header(pilot)
        assert "help" in header(pilot)


async def test_a_notice_of_what_was_done_outlasts_the_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    app = whole_app()
    async with app.run_test(size=(160, 50), notifications=True) as pilot:
        await pilot.press("o")
        await pilot.pause()
        await pilot.press("y")
        await pilot.pause()
        assert "Copied the run id" in header(pilot)
        await pilot.press("escape")
        await pilot.pause()
        assert "Copied the run id" in header(pilot)


class NotUnderstood(StillFeed):
    """The stream of a host whose gputop knows none of the questions."""

    host = "node9"

    def take_answers(self) -> list[object]:
        asked, self.asked = self.asked, []
        return [Misunderstood("runs", "gputop on node9 is older.") for question in asked if isinstance(question, RunsQuestion)]


async def test_a_screen_whose_question_is_not_understood_says_why_once() -> None:
    feed: Any = NotUnderstood(samples.snapshot())
    app = GputopApp(feed, Settings())
    async with app.run_test(size=(160, 50), notifications=True) as pilot:
        await pilot.press("o")
        await pilot.pause()
        for _ in range(2):
            assert feed.asked or header(pilot).startswith("▌ gputop on node9 is older.")
            app.on_feed_arrived()
            await pilot.pause()
            feed.ask(RunsQuestion())
        assert "gputop on node9 is older." in header(pilot)
        assert [type(notice) for notice in app._notifications] == [ScreenNotice]
        await pilot.press("escape")
        await pilot.pause()
        assert "node9 is older" not in header(pilot)
