"""The first two lines of the dashboard."""

from __future__ import annotations

from gputop.tui.drawing.gpus.verdict import verdict_line
from gputop.tui.drawing.header import header_line
from gputop.tui.drawing.line import Line
from gputop.tui.state.view import View
from gputop.tui.widgets.lines import LinesWidget


class Header(LinesWidget):
    """Machine, badges, clock, interval; and below, the verdict."""

    DEFAULT_CSS = "Header { height: 2; }"

    def __init__(self) -> None:
        super().__init__(id="header")
        self.view: View | None = None

    def show(self, view: View) -> None:
        """Draw this view's header."""
        self.view = view
        self.ascii = view.settings.ascii
        with self.of_one_size():
            self.set_lines(self._drawn())

    def resized(self) -> None:
        """Lay out the lines for the new width."""
        self.take_lines(self._drawn())

    def _drawn(self) -> tuple[Line, Line]:
        remote = getattr(self.app, "remote", None)
        return header_line(self.view, self.size.width, remote), verdict_line(self.view, self.size.width)
