"""How the screens are arranged is remembered: through real files, whatever they hold and wherever they lie."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest

from gputop import places
from gputop.settings.values import Settings
from gputop.tui.screens.dashboard import DashboardScreen
from gputop.tui.screens.launch.screen import LaunchScreen
from gputop.tui.state import layout
from gputop.tui.state.layout import Layout, LayoutKeeper, read_layout
from gputop.tui.widgets.choice_list import ChoiceList
from gputop.tui.widgets.requests import LayoutChanged
from tests.tui.kit import whole_app


async def test_the_next_start_looks_as_this_one_ended() -> None:
    app = whole_app()
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        await pilot.press("s", "s", "I", "t", "Y", "right_square_bracket", "c")
        app.post_message(LayoutChanged(recipe="single"))
        await pilot.pause()
        before, order = app.settings, app.screen.processes.order  # type: ignore[attr-defined]
    app.keeper.finish()
    assert json.loads(layout.file().read_text())["recipe"] == "single"
    assert before.log_axis

    again = whole_app()
    async with again.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        assert isinstance(again.screen, DashboardScreen)
        assert again.screen.processes.order == order
        assert again.settings == before
        await pilot.press("l")
        await pilot.pause()
        assert isinstance(again.screen, LaunchScreen)
        assert again.screen.query_one("#recipes", ChoiceList).chosen == "single"


def test_what_the_settings_file_names_stays_as_it_says() -> None:
    places.config_path().parent.mkdir(parents=True)
    places.config_path().write_text("log_axis = false\n")
    keeper = LayoutKeeper()
    keeper.keep(log_axis=True, smoothing=0.6)
    keeper.finish()
    app = whole_app()
    assert (app.settings.log_axis, app.settings.smoothing) == (False, 0.6)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "nonsense",
        "[" * 5000,
        '{"sort": 3, "invert": "no", "smoothing": NaN, "recipe": null, "density": ["x"], "other": 1}',
    ],
)
def test_a_damaged_file_counts_as_none(content: str) -> None:
    layout.file().parent.mkdir(parents=True)
    layout.file().write_text(content)
    assert read_layout() == Layout()
    assert read_layout().settings(Settings(), ()) == Settings()
    keeper = LayoutKeeper()
    keeper.keep(sort="sm")
    keeper.finish()
    fits = content.startswith("{")
    assert (keeper.problem is None) == fits
    assert fits or layout.file().read_text() == content, "it is not replaced"


async def test_a_damaged_file_is_named_at_start() -> None:
    layout.file().parent.mkdir(parents=True)
    layout.file().write_text("nonsense")
    app = whole_app()
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        told = [notice.message for notice in app._notifications]
        assert any(text.startswith(f"{layout.file()} cannot be read: not JSON") for text in told)


async def test_an_unknown_order_and_recipe_count_as_none() -> None:
    keeper = LayoutKeeper()
    keeper.keep(sort="price", recipe="gone")
    keeper.finish()
    app = whole_app()
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        assert isinstance(app.screen, DashboardScreen)
        assert app.screen.processes.order.sort == "gpu"
        await pilot.press("l")
        await pilot.pause()
        assert isinstance(app.screen, LaunchScreen)
        assert app.screen.query_one("#recipes", ChoiceList).chosen in {entry.key for entry in app.screen.entries}


def test_no_disk_holds_up_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """While one write hangs, changes return; then the newest is written."""
    hangs, write = threading.Event(), layout._write

    def slow(held: Layout) -> None:
        hangs.wait(60)
        write(held)

    monkeypatch.setattr(layout, "_write", slow)
    keeper = LayoutKeeper()
    for sort in ("pid", "mem", "sm"):
        keeper.keep(sort=sort)
    assert not layout.file().exists()
    hangs.set()
    keeper.finish()
    assert read_layout().sort == "sm"
    assert [path.name for path in layout.file().parent.iterdir()] == ["layout.json"]


def test_a_place_that_is_no_file_or_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    layout.file().parent.mkdir(parents=True)
    os.mkfifo(layout.file())
    assert read_layout() == Layout()
    layout.file().unlink()
    layout.file().parent.rmdir()
    layout.file().parent.write_text("a file is in the way")
    keeper = LayoutKeeper()
    keeper.keep(sort="mem")
    keeper.finish()
    assert keeper.layout.sort == "mem"
