"""A tiny app for tests of the screens: like gputop's app, it provides the view, but nothing else."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from textual.app import App
from textual.screen import Screen

from gputop.history.history import History
from gputop.settings.values import Settings
from gputop.snapshot import Snapshot
from gputop.tui.app import GputopApp
from gputop.tui.state.view import View
from gputop.tui.terminal.palette import THEMES, theme_name
from tests import samples

SIZES = ((160, 50), (100, 30), (80, 24))


def view_of(snapshot: Snapshot | None = None, **changes: object) -> View:
    """Return a view as the app makes it after one snapshot."""
    snapshot = snapshot or samples.snapshot()
    history = History()
    history.observe(snapshot)
    base = View(snapshot, history, run_id=snapshot.runs[0].run_id if snapshot.runs else None)
    return replace(base, **changes)  # type: ignore[arg-type]


class ScreenApp(App[None]):
    """Shows a screen on top of an empty one."""

    CSS_PATH = None
    ENABLE_COMMAND_PALETTE = False

    def __init__(self, screen: Screen[object], view: View) -> None:
        super().__init__()
        self.first_screen = screen
        self.view = view
        self.mono = False

    def on_mount(self) -> None:
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = theme_name(self.view.settings.theme, not self.mono)
        self.push_screen(self.first_screen)
        self.call_after_refresh(self.give, self.view)

    def give(self, view: View) -> None:
        """Pass a view to the visible screen, as gputop's app does for every snapshot."""
        self.view = view
        show = getattr(self.screen, "show", None)
        if show is not None:
            show(view)

    def change_settings(self, settings: Settings) -> None:
        self.give(replace(self.view, settings=settings))


def text_of(app: App[None]) -> str:
    """The screen's characters, line by line."""
    width, height = app.size
    lines = app.screen._compositor.render_strips(app.size)
    return "\n".join("".join(segment.text for segment in strip)[:width].rstrip() for strip in lines[:height])


class StillFeed:
    """A feed with all snapshots at the start; it records the questions."""

    kind = "live"
    host = None

    def __init__(self, *snapshots: Snapshot) -> None:
        self.waiting = list(snapshots)
        self.asked: list[object] = []

    def start(self, notify: Callable[[], object]) -> None:
        notify()

    def drain(self) -> list[Snapshot]:
        taken, self.waiting = self.waiting, []
        return taken

    def age_s(self, snapshot: Snapshot) -> float:
        return 0.0

    def take_answers(self) -> list[object]:
        return []

    def ask(self, question: object) -> None:
        self.asked.append(question)

    want_pcie = set_interval = ask

    def problem(self) -> None:
        return None

    status = problem


def whole_app(snapshot: Snapshot | None = None, **settings: object) -> GputopApp:
    """gputop's own app after one snapshot."""
    feed: Any = StillFeed(snapshot or samples.snapshot())
    return GputopApp(feed, Settings(**settings))  # type: ignore[arg-type]
