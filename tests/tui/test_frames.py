"""Each key is answered in one frame with all of it, drawn once: no empty panes first, nor more layouts than needed."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

import pytest
from textual.app import App
from textual.geometry import Size
from textual.pilot import Pilot
from textual.screen import Screen

from gputop.settings.values import Settings
from gputop.tui.app import GputopApp
from gputop.tui.machine import Machine
from gputop.tui.screens.base import SubScreen
from gputop.tui.screens.dashboard import DashboardScreen
from gputop.tui.screens.doctor import DoctorScreen
from gputop.tui.terminal import private_textual
from gputop.tui.terminal.settled_screen import SettledScreen
from tests.tui.kit import StillFeed, text_of, whole_app

SIZES = ((160, 50), (100, 30), (80, 24))
SCREENS = {
    "run": ("o",),
    "GPU": ("1", "enter"),
    "doctor": ("d",),
    "launch": ("l",),
    "help": ("question_mark",),
    "settings": ("f2",),
    "palette": ("colon",),
    "question": ("k",),
}
BOXES = ("palette", "question")
"""They leave the screen below them as it is."""
LAYOUTS_MOST = 4
"""One for the sizes; one after the heights that follow from the content, which may change what fits; one that confirms it."""


@dataclass
class Seen:
    """What was sent to the terminal, and how often a screen was laid out."""

    frames: list[tuple[bool, str]] = field(default_factory=list)
    """Whether each frame changes more than the header, and the screen below the header."""
    layouts: int = 0
    fills: int = 0
    """How often a screen was drawn, whether it was shown or not."""

    def whole(self) -> list[str]:
        """Return the frames that change more than the clock or a badge in the header."""
        return [text for is_whole, text in self.frames if is_whole]

    def forget(self) -> None:
        self.frames.clear()
        self.layouts = self.fills = 0


def below_header(app: App[None]) -> str:
    return text_of(app).partition("\n")[2]


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """Record what Textual would write to a terminal."""
    assert private_textual.first_mismatch() is None
    private_textual._all_match()
    seen = Seen()
    display, lay_out = App._display, Screen._refresh_layout

    def displayed(self: App[None], screen: Screen[Any], renderable: Any) -> None:
        if renderable is not None and not self._batch_count:
            renderable.render_segments(self.console)
            pieces = getattr(getattr(renderable, "_update", None), "pieces", None)
            seen.frames.append((pieces is None or any(piece.y > 0 for piece in pieces), below_header(self)))
        display(self, screen, renderable)

    def laid_out(self: Screen[Any], size: Size | None = None, scroll: bool = False) -> None:
        seen.layouts += 1
        lay_out(self, size, scroll)

    def counted(kind: type[SettledScreen[Any]]) -> None:
        fill = kind.fill

        def filled(self: SettledScreen[Any]) -> None:
            seen.fills += 1
            fill(self)

        monkeypatch.setattr(kind, "fill", filled)

    for kind in (DashboardScreen, SubScreen):
        counted(kind)
    monkeypatch.setattr(Machine, "stale_s", lambda self: None)  # else a slow test draws the age of its snapshot
    monkeypatch.setattr(App, "_display", displayed)
    monkeypatch.setattr(Screen, "_refresh_layout", laid_out)
    return seen


async def pressed(pilot: Pilot[None], seen: Seen, *keys: str) -> None:
    """Press keys, and forget what was seen before the last of them."""
    for key in keys[:-1]:
        await pilot.press(key)
    await pilot.pause()
    seen.forget()
    await pilot.press(keys[-1])
    await pilot.pause()


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_a_screen_opens_and_closes_in_one_frame(seen: Seen, size: tuple[int, int]) -> None:
    app = whole_app()
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        for name, keys in SCREENS.items():
            await pressed(pilot, seen, *keys)
            assert (name, seen.whole()) == (name, [below_header(app)])
            assert seen.layouts <= LAYOUTS_MOST, name
            assert seen.fills == (name not in BOXES), name
            await pressed(pilot, seen, "escape")
            assert (name, seen.whole()) == (name, [below_header(app)])
            assert seen.fills == 1, name
            assert app.screen is app.screen_stack[1]


@pytest.mark.parametrize("size", SIZES, ids=str)
async def test_a_key_that_changes_the_layout_makes_one_frame(seen: Seen, size: tuple[int, int]) -> None:
    app = whole_app()
    async with app.run_test(size=size) as pilot:
        await pressed(pilot, seen, "o")
        for keys in (("t",), ("t",), ("g",), ("t",), ("t",), ("g",), ("x",), ("h",)):
            before = below_header(app)
            await pressed(pilot, seen, *keys)
            assert (keys, seen.whole()) == (keys, [below_header(app)] if below_header(app) != before else [])
            assert seen.layouts <= LAYOUTS_MOST, keys
            assert seen.fills == 1, keys


@pytest.mark.parametrize("keys", [(), *SCREENS.values()], ids=str)
async def test_a_new_size_of_the_terminal_makes_one_frame(seen: Seen, keys: tuple[str, ...]) -> None:
    app = whole_app()
    async with app.run_test(size=(160, 50)) as pilot:
        await pressed(pilot, seen, *keys, "shift")
        for columns, rows in ((100, 30), (160, 50)):
            seen.forget()
            await pilot.resize_terminal(columns, rows)
            await pilot.pause()
            assert set(seen.whole()) == {below_header(app)}


@pytest.mark.parametrize("key", ["o", "d", "question_mark", "l"])
async def test_a_screen_opens_before_there_is_anything_to_show(key: str) -> None:
    feed: Any = StillFeed()
    app = GputopApp(feed, Settings())
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        await pilot.press(key)
        await pilot.pause()
        assert len(app.screen_stack) == 3
        assert app.screen._compositor.render_update() is None, "it waits for nothing"
        assert "Esc back" in text_of(app)


@pytest.mark.parametrize("key", ["o", "d", "question_mark", "l", "f2"])
async def test_with_an_unknown_textual_a_screen_shows_the_same(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = []
    for known in (True, False):
        monkeypatch.setattr(private_textual, "_all_match", lambda known=known: known)
        app = whole_app()
        async with app.run_test(size=(100, 30)) as pilot:
            await pilot.pause()
            await pilot.press(key)
            await pilot.pause()
            assert private_textual.can_settle(app.screen) is known
            await pilot.resize_terminal(120, 40)
            await pilot.pause()
            for _ in range(100):  # stock Textual paints a new size in several frames, at times of its own
                if known or below_header(app) == shown[0]:
                    break
                await pilot.pause(0.02)
            shown.append(below_header(app))
    assert shown[0] == shown[1]


async def test_a_screen_that_another_covers_at_once_appears_when_that_one_is_closed(seen: Seen) -> None:
    app = whole_app()
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        app.push_screen(DoctorScreen(app.view))
        await asyncio.gather(pilot.press("question_mark"), pilot.pause())
        await pilot.pause()
        await pressed(pilot, seen, "escape")
        assert seen.whole() == [below_header(app)]
        assert "Findings" in seen.whole()[0]
