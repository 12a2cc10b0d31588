"""`S` saves what is on the screen, whatever screen that is, and says where or why not."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from textual.pilot import Pilot

from gputop import places
from gputop.tui import screenshot
from tests.tui.kit import text_of, whole_app


async def told(pilot: Pilot[None], words: str) -> str:
    for _ in range(1500):
        for notice in pilot.app._notifications:
            if words in notice.message:
                return notice.message
        await pilot.pause(0.02)
    raise AssertionError(words)


async def test_each_screen_is_saved_as_it_is() -> None:
    app = whole_app()
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        shown = text_of(app)
        await pilot.press("S")
        message = await told(pilot, "Saved")
        path = Path(message.removeprefix("Saved ").removesuffix(" (and .txt)"))
        assert path.parent == places.state_dir() / "screenshots"
        assert path.name.startswith("gputop-dashboard-")
        assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
        assert path.with_suffix(".txt").read_text() == f"{shown}\n"
        assert "</svg>" in path.read_text()
        await pilot.press("d", "colon")
        await pilot.press("escape", "S")
        await told(pilot, "gputop-doctor-")


async def test_an_unwritable_place_is_reported() -> None:
    places.state_dir().mkdir(parents=True, exist_ok=True)
    (places.state_dir() / "screenshots").write_text("a file is in the way")
    app = whole_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press("S")
        assert "cannot be saved" in await told(pilot, "The screen cannot be saved")


def test_two_in_one_second_and_a_name_of_any_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screenshot.time, "strftime", lambda form: "20261122-180000")
    paths = [screenshot.save("run ../\x1b[2J/x", "<svg/>", text) for text in ("a", "b", "")]
    names = [path.name for found in paths for path in found]
    assert len(set(names)) == 5
    assert all(os.sep not in name and name.isprintable() for name in names)
    assert {path.parent for found in paths for path in found} == {places.state_dir() / "screenshots"}
