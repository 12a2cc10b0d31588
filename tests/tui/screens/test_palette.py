"""The palette lists every key of every screen, searches them, and runs the chosen one; the help names the same keys."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Iterator

import pytest
from textual.binding import Binding
from textual.dom import DOMNode

import gputop.tui
from gputop.tui.app import GputopApp
from gputop.tui.screens.palette import NOT_LISTED, WORD_COLUMNS, PaletteScreen, choices
from gputop.tui.screens.question import Question
from gputop.tui.screens.run.screen import RunScreen
from gputop.tui.state.keys import KEYS, key_name
from tests.house.how_to import step
from tests.tui.kit import text_of, whole_app

UNLISTED = {"nothing", "no", "yes", "close"}
"""Actions of questions, which say their keys themselves, and of the palette."""


def nodes() -> Iterator[type[DOMNode]]:
    """Every screen and widget of gputop, and the app."""
    for module in pkgutil.walk_packages(gputop.tui.__path__, "gputop.tui."):
        for _, found in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
            if found.__module__ == module.name and issubclass(found, DOMNode):
                yield found


def own_bindings() -> list[tuple[type[DOMNode], Binding]]:
    return [
        (node, binding)
        for node in nodes()
        for binding in node.__dict__.get("BINDINGS", ())
        if binding.action.partition("(")[0] not in UNLISTED
    ]


def test_each_key_says_what_it_does_and_has_an_action() -> None:
    found = own_bindings()
    assert len(found) > 80
    for node, binding in found:
        assert 0 < len(binding.description) <= WORD_COLUMNS, f"{node}, {binding.action}: {step('A screen', 'Key')}"
        where, _, action = binding.action.partition("(")[0].rpartition(".")
        target = GputopApp if where == "app" else node
        assert hasattr(target, f"action_{action}"), (node, binding.action)


def test_the_help_names_each_key() -> None:
    named = {name for key in KEYS for name in key.keys.split()}
    moves = {"arrows", "left", "right", "Up", "Down"}
    assert moves <= named
    for node, binding in own_bindings():
        for key in binding.key.split(","):
            name = key_name(key)
            known = {name, name.lower(), name.removeprefix("Shift-").lower()}
            assert known & named or name in "=1234", (node, key)


async def test_it_is_searched_by_typing_and_runs_what_is_chosen() -> None:
    app = whole_app()
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        await pilot.press("colon")
        await pilot.pause()
        assert isinstance(app.screen, PaletteScreen)
        assert "launch" in text_of(app)
        await pilot.press(*"log axis")
        await pilot.pause()
        assert ": log axis_" in text_of(app)
        rows = [row for row in text_of(app).splitlines() if "logarithmic" in row]
        assert len(rows) == 1
        assert "Y " in rows[0]
        await pilot.press("enter")
        await pilot.pause()
        assert not isinstance(app.screen, PaletteScreen)
        assert app.settings.log_axis
        await pilot.press("ctrl+p", *"zzz")
        await pilot.pause()
        assert "No action of this screen has these words. The help (?) lists all keys." in text_of(app)
        await pilot.press("enter", "f2", "escape")
        await pilot.pause()
        assert not isinstance(app.screen, PaletteScreen)
        await pilot.press("o", "colon", *"small charts")
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, RunScreen)
        assert app.screen.has_class("grid")


@pytest.mark.parametrize("key", ["", "d", "l", "o", "question_mark", "f2", "enter"])
async def test_each_screen_lists_its_own_keys(key: str) -> None:
    app = whole_app()
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        await pilot.press(*([key] if key else []))
        await pilot.pause()
        screen = app.screen
        listed = {choice.action for choice in choices(screen)}
        reached = {key for key, active in screen.active_bindings.items() if active.node is screen}
        own = {binding.action for key, binding in screen._bindings if key in reached}
        assert {action for action in own if action.partition("(")[0] not in NOT_LISTED} <= listed
        assert {"leave", "launch", "palette"} & listed == {"leave", "launch"} - ({"launch"} if key == "l" else set())
        assert not any(action.startswith("replay") for action in listed)
        assert not isinstance(screen, Question)


async def test_what_is_below_the_palette_stays_readable_without_colors(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was black on black: Textual reads NO_COLOR, too."""
    monkeypatch.setenv("NO_COLOR", "1")
    app = whole_app(color=False)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("colon")
        await pilot.pause()
        assert isinstance(app.screen, PaletteScreen)
        styles = [segment.style for strip in app.screen._compositor.render_strips(app.size) for segment in strip]
        colors = {color for style in styles if style is not None for color in (style.color, style.bgcolor) if color is not None}
        assert all(color.is_default for color in colors), colors


@pytest.mark.parametrize(
    ("key", "first"), [("o", "Keys: run"), ("d", "Keys: doctor"), ("l", "Keys: launch"), (None, "Keys: everywhere")]
)
async def test_the_help_begins_with_the_keys_of_the_screen_that_it_was_opened_from(key: str | None, first: str) -> None:
    app = whole_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press(*filter(None, (key, "f1")))
        await pilot.pause()
        headings = [row.strip() for row in text_of(app).splitlines() if row.strip().startswith("Keys:")]
        assert headings[0].split(", ")[-1].removeprefix("Keys: ") in first, headings
