"""An app that sends the terminal only what differs from what it shows, and nothing while the last frame is in transit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from textual import events
from textual.app import App
from textual.filter import LineFilter, Monochrome
from textual.geometry import Size
from textual.screen import Screen

from gputop.tui.terminal.pace import Pace
from gputop.tui.terminal.patient_input import patient
from gputop.tui.terminal.private_textual import driver_of, shown_cells
from gputop.tui.terminal.settled_screen import SettledScreen


class SparingApp(App[None]):
    """Compares each update with the cells that the terminal shows. With an unknown Textual, the app draws and reads as Textual
    does."""

    def __init__(self) -> None:
        super().__init__()
        self._shown = shown_cells()
        if self._shown is not None:
            self.driver_class = patient(self.driver_class)
        self._held: Callable[[int, int, bool], str] | None = None
        self._held_anew = True
        """Whether to draw what is held whole: the terminal may show anything."""
        self._late = False
        """Whether a frame was skipped because the previous one was in transit."""

    def get_line_filters(self) -> Sequence[LineFilter]:
        """Leave out the filter that Textual adds for NO_COLOR: gputop's look without colors needs none, and below a window the
        filter turns the terminal's own two colors into black on black."""
        return [found for found in super().get_line_filters() if not isinstance(found, Monochrome)]

    async def on_mount(self) -> None:
        """Redraw after a suspension: the terminal then shows an empty screen."""
        self.app_resume_signal.subscribe(self, lambda _: self.draw_anew(), immediate=True)

    def on_resize(self, event: events.Resize) -> None:
        """Redraw even if the size is the old one: a different size in between has cut off what was shown."""
        if self._pace is not None:
            self._pace.pass_by()
        self._held_anew = True
        self.call_next(self._resize_screens, event.size)

    def _resize_screens(self, size: Size) -> None:
        if self._shown is not None:
            self._shown.forget()
        for screen in self.visible_screens():
            if isinstance(screen, SettledScreen):
                screen.resize(size)
            else:
                screen.refresh(layout=True)

    def visible_screens(self) -> list[Screen[Any]]:
        """Return the screen on top, and below it those that it does not cover; the lowest first."""
        found: list[Screen[Any]] = []
        for screen in reversed(self.screen_stack):
            found.insert(0, screen)
            if screen.styles.background.a == 1:
                break
        return found

    @property
    def sent_bytes(self) -> int | None:
        """How many bytes were sent to the terminal so far; None if the driver does not count them."""
        return getattr(driver_of(self), "sent_bytes", None)

    @property
    def _pace(self) -> Pace | None:
        return getattr(driver_of(self), "pace", None)

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        """Display an update of a screen, unless ``hold`` keeps what is there, or the last one has not arrived yet."""
        if self._held is not None:
            return
        pace = self._pace
        if pace is not None and pace.is_behind and self._shown is not None:
            if not self._late:
                self._late = True
                asyncio.get_running_loop().call_later(pace.patience_s, self.go_on)
            return
        if self._shown is not None:
            renderable = self._shown.sparing(renderable, *self.size)
        super()._display(screen, renderable)
        if pace is not None and not self._batch_count:
            driver_of(self).ask()

    def go_on(self) -> None:
        """Draw what was skipped: everything that differs now from what the terminal shows."""
        if self._late and self.is_running:
            self._late = False
            self.screen.refresh(layout=True)

    def hold(self, picture: Callable[[int, int, bool], str]) -> None:
        """Keep what another part of the program has drawn on the terminal, until ``release``.

        ``picture`` returns what to write to draw it again on that many columns and rows: if True, all of it; else what changed.
        """
        self._held = picture

    def draw_held(self) -> bool:
        """Draw again what ``hold`` keeps; return False if it keeps nothing."""
        driver = driver_of(self)
        if self._held is None or driver is None:
            return False
        driver.write(self._held(*self.size, self._held_anew))
        driver.flush()
        self._held_anew = False
        return True

    def release(self) -> None:
        """Resume drawing."""
        if self._held is not None:
            self._held = None
            self.draw_anew()

    def draw_anew(self) -> None:
        """Send the whole screen, whatever the terminal shows or has left unanswered."""
        if self._pace is not None:
            self._pace.forget()
        self._held_anew = True
        self._send_whole()

    def _send_whole(self) -> None:
        if self._shown is not None:
            self._shown.forget()
        self.screen.refresh(layout=True)
