"""The first line of the dashboard."""

from __future__ import annotations

from gputop.tui.drawing.header import header_line
from gputop.tui.state.view import View
from gputop.tui.widgets.lines import LinesWidget


class Header(LinesWidget):
    """Machine, badges, clock, interval."""

    DEFAULT_CSS = "Header { height: 1; }"

    def __init__(self) -> None:
        super().__init__(id="header")
        self.view: View | None = None

    def show(self, view: View) -> None:
        """Draw this view's header."""
        self.view = view
        self.ascii = view.settings.ascii
        self.set_lines([header_line(view, self.size.width)])

    def resized(self) -> None:
        """Lay out the line for the new width."""
        self.take_lines([header_line(self.view, self.size.width)])
