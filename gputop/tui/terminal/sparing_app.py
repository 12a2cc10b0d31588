"""An app that sends the terminal only what differs from what it shows."""

from __future__ import annotations

from typing import Any

from textual.app import App
from textual.screen import Screen

from gputop.tui.terminal.patient_input import patient
from gputop.tui.terminal.private_textual import shown_cells


class SparingApp(App[None]):
    """Compares each update with the cells that the terminal shows. With an unknown Textual, it sends updates whole."""

    def __init__(self) -> None:
        super().__init__()
        self.driver_class = patient(self.driver_class)
        self._shown = shown_cells()
        self._held = False

    async def on_mount(self) -> None:
        """Redraw after a suspension: the terminal then shows an empty screen."""
        self.app_resume_signal.subscribe(self, lambda _: self.draw_anew(), immediate=True)

    def on_resize(self) -> None:
        """Redraw even if the size is the old one: a different size in between has cut off what was shown."""
        self.draw_anew()

    def _display(self, screen: Screen[Any], renderable: Any) -> None:
        """Display an update of a screen, unless ``hold`` keeps what is there."""
        if self._held:
            return
        if self._shown is not None:
            renderable = self._shown.sparing(renderable, *self.size)
        super()._display(screen, renderable)

    def hold(self) -> None:
        """Leave on the terminal what another part of the program has drawn, until ``let_go``."""
        self._held = True

    def let_go(self) -> None:
        """Resume drawing."""
        if self._held:
            self._held = False
            self.draw_anew()

    def draw_anew(self) -> None:
        """Send the whole screen, whatever the terminal shows."""
        if self._shown is not None:
            self._shown.forget()
        self.screen.refresh(layout=True)
