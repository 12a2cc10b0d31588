"""Every screen at every size: one start of each, resized. After a change that is meant, run with --snapshot-update.

The text of the dark theme is kept, and the styles of all cells in light and in monochrome, where the text is the same. Pictures
of some are here and in ``test_looks``.
"""

from __future__ import annotations

import string
from collections.abc import Callable
from dataclasses import replace
from itertools import groupby

import pytest
from rich.cells import cell_len
from syrupy.assertion import SnapshotAssertion
from textual.color import Color
from textual.screen import Screen
from textual.strip import Strip

from gputop.doctor.findings.finding import Finding
from gputop.settings.values import Settings
from gputop.tui.screens import compare as compare_module
from gputop.tui.screens import signals
from gputop.tui.screens.compare import CompareScreen
from gputop.tui.screens.details import EnvironmentScreen, ProcessScreen
from gputop.tui.screens.doctor import DoctorScreen
from gputop.tui.screens.gpu import GpuScreen
from gputop.tui.screens.help import HelpScreen
from gputop.tui.screens.launch.screen import LaunchScreen
from gputop.tui.screens.palette import Choice, PaletteScreen
from gputop.tui.screens.profile.screen import ProfileScreen
from gputop.tui.screens.run.screen import RunScreen
from gputop.tui.screens.settings import SettingsScreen
from gputop.tui.screens.signalling import Recipient
from gputop.tui.screens.signals import SignalScreen
from gputop.tui.screens.stop import StopScreen
from gputop.tui.screens.stopping import StopTarget
from gputop.tui.screens.untracked import UntrackedScreen
from gputop.tui.screens.where import WhereScreen
from gputop.tui.state.keys import APP_KEYS, key_name
from gputop.tui.state.view import View
from gputop.tui.terminal.palette import theme_name
from tests.tui.dashboards import DashboardApp
from tests.tui.kit import ScreenApp, text_of
from tests.tui.screens.hosts.kit import FleetScreenApp, fleet_view
from tests.tui.screens.hosts.test_looks import lab
from tests.tui.screens.profile.test_profile_screen import DONE
from tests.tui.screens.test_compare import scaling
from tests.tui.screens.test_looks import Look, compare, hot_gpu, jobs_view, settle, three_jobs, utc, view
from tests.tui.screens.test_untracked import run_of as untracked_run
from tests.tui.screens.test_untracked import view_of as view_of_untracked
from tests.tui.screens.test_where import answer as whereabouts

assert three_jobs
assert utc

SIZES = ((80, 24), (100, 30), (120, 40), (160, 50), (220, 60))
LETTERS = string.ascii_letters + string.digits
Build = Callable[[View], Screen[object]]


def where_screen(shown: View) -> WhereScreen:
    screen = WhereScreen(shown.snapshot.runs[0])
    screen.answer = whereabouts(shown.snapshot.runs[0].run_id)
    return screen


def profile_screen(shown: View) -> ProfileScreen:
    run = shown.snapshot.runs[0]
    screen = ProfileScreen(run)
    screen.answer = replace(DONE, run_id=run.run_id)
    return screen


def scaling_view() -> View:
    _, snapshot, history = scaling()
    return View(snapshot, history)


def compare_screen(shown: View) -> CompareScreen:
    return CompareScreen(tuple(scaling()[0]), "job-2", shown)


def signal_screen(shown: View) -> SignalScreen:
    return SignalScreen(shown.snapshot.processes[:2], shown)


def palette_screen(shown: View) -> PaletteScreen:
    here = Screen[object]()
    return PaletteScreen([Choice(key_name(row.keys.split(",")[0]), row.what, row.action, here) for row in APP_KEYS])


def untracked_view() -> View:
    mine = Finding("A07", "error", "certain", "All ranks run on GPU 0", (), "", "set the device", pids=(4001,))
    return view_of_untracked(untracked_run(), findings=(mine,))


def replayed() -> View:
    return replace(view(), feed="replay", replay_status="×2 paused")


SCREENS: dict[str, tuple[Callable[[], View], Build]] = {
    "run": (view, lambda shown: RunScreen("run-1")),
    "untracked": (untracked_view, lambda shown: UntrackedScreen(untracked_run())),
    "GPU": (hot_gpu, lambda shown: GpuScreen(shown.snapshot.devices[0])),
    "doctor": (view, lambda shown: DoctorScreen()),
    "where": (view, where_screen),
    "launch": (jobs_view, lambda shown: LaunchScreen()),
    "process": (view, lambda shown: ProcessScreen(shown.snapshot.processes[1])),
    "environment": (view, lambda shown: EnvironmentScreen(shown.snapshot.processes[1])),
    "settings": (view, lambda shown: SettingsScreen(shown, lambda settings: None)),
    "help": (view, lambda shown: HelpScreen()),
    "profile": (view, profile_screen),
    "compare": (scaling_view, compare_screen),
    "palette": (view, palette_screen),
    "signals": (view, signal_screen),
    "stop": (view, lambda shown: StopScreen(StopTarget("run resnet18-ddp", "SIGTERM goes to torchrun.", 3999))),
}


def app_of(name: str, settings: Settings) -> DashboardApp | ScreenApp | FleetScreenApp:
    """The app that shows a screen."""
    if name == "hosts":
        return FleetScreenApp(replace(fleet_view(lab()), settings=settings))
    if name in ("dashboard", "replay"):
        shown = replace(replayed() if name == "replay" else view(), settings=settings)
        return DashboardApp(shown, theme_name(settings.theme, settings.color))
    make, build = SCREENS[name]
    shown = replace(make(), settings=settings)
    app = ScreenApp(build(shown), shown)
    app.mono = not settings.color
    return app


EVERY_SCREEN = ["dashboard", "replay", "hosts", *SCREENS]
OWN_WORDS = ("run", "compare", "settings")
"""Without colors, curves differ by their marks; and the settings name the theme."""
THEMES = {"dark": Settings(), "light": Settings(theme="light"), "mono": Settings(theme="mono", color=False)}


def styles_of(app: DashboardApp | ScreenApp | FleetScreenApp) -> list[str]:
    """Which cells look alike: a line for each style and its letter, then one for each row: "3a77b" is 3 cells of a, 77 of b."""
    letters: dict[str, str] = {}
    rows = []
    for strip in shown_strips(app):
        cells = [
            letters.setdefault(str(style or ""), LETTERS[len(letters)])
            for text, style, _ in strip
            for _ in range(cell_len(text))
        ]
        rows.append("".join(f"{len(list(same))}{letter}" for letter, same in groupby(cells)))
    return [*(f"{letter}: {style}" for style, letter in letters.items()), *rows]


def shown_strips(app: DashboardApp | ScreenApp | FleetScreenApp) -> list[Strip]:
    """The rows of the screen as they are sent to the terminal."""
    strips = app.screen._compositor.render_strips(app.size)
    for one in app._filters or ():
        strips = [strip.apply_filter(one, app.screen.background_colors[1]) for strip in strips]
    return strips


@pytest.mark.parametrize("name", EVERY_SCREEN)
async def test_every_size(snapshot: SnapshotAssertion, three_jobs: None, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """In light and in monochrome, the words are those of the dark theme; the styles are compared, and the colors checked."""
    monkeypatch.setattr(compare_module, "POLL_S", 1e6)  # the jobs of the comparison are not in the store
    monkeypatch.setattr(signals, "recipient", lambda process, view: Recipient(process.pid, "ada", "python train.py"))
    words: dict[str, list[str]] = {}
    for theme, settings in THEMES.items():
        app = app_of(name, settings)
        async with app.run_test(size=SIZES[0]) as pilot:
            for columns, rows in SIZES:
                await pilot.resize_terminal(columns, rows)
                await settle(pilot)
                await settle(pilot)
                before = ""
                # On a busy machine the screen learns its new size late, and its parts still later.
                while app.screen.size != (columns, rows) or text_of(app) != before:
                    before = text_of(app)
                    await settle(pilot)
                size, found = f"{columns}x{rows}", before.splitlines()
                if theme == "dark":
                    words[size] = found
                    assert found == snapshot(name=size)
                    continue
                if name in OWN_WORDS:
                    assert found == snapshot(name=f"{size} {theme} words")
                else:
                    assert found == words[size]
                assert styles_of(app) == snapshot(name=f"{size} {theme}")
                check_colors(app, theme)


PICTURED = ("GPU", "untracked", "doctor", "where", "launch", "process", "environment", "settings", "help", "stop")
"""In light and in monochrome; the run and the hosts are in ``test_looks``, the dashboard in ``test_dashboard``."""


@pytest.mark.parametrize("name", PICTURED)
@pytest.mark.parametrize("theme", ["light", "mono"])
def test_light_and_monochrome(snap_compare: Look, three_jobs: None, name: str, theme: str) -> None:
    make, build = SCREENS[name]
    shown = make()
    settings = Settings(theme=theme, color=theme != "mono")
    screen = build(shown)
    compare(snap_compare, screen, (100, 30), View(shown.snapshot, shown.history, shown.findings, settings, run_id="run-1"))


def colors(app: DashboardApp | ScreenApp | FleetScreenApp) -> tuple[set[str], set[str]]:
    """The colors of all characters, and behind them, as they are sent to the terminal."""
    styles = [style for strip in shown_strips(app) for _, style, _ in strip if style is not None]
    return (
        {style.color.name for style in styles if style.color is not None},
        {style.bgcolor.name for style in styles if style.bgcolor is not None},
    )


BRIGHT = 0.8
"""Textual's brightness of the darkest background in light."""
APART = 0.1
"""How much darker the faintest rule is than its background."""


def check_colors(app: DashboardApp | ScreenApp | FleetScreenApp, theme: str) -> None:
    """No cell has the colors of another theme."""
    written, behind = colors(app)
    if theme == "light":
        inks, papers = list(map(Color.parse, written)), list(map(Color.parse, behind))
        assert all(color.brightness > BRIGHT for color in papers)
        paper = max(color.brightness for color in papers)
        assert all(paper - ink.brightness > APART for ink in inks if ink not in papers)
    elif not app.screen.is_modal:  # what lies behind a question is of the screen below, which is not here
        assert (written, behind) == (set(), set())
