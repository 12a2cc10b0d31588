"""The names of the panes on a small screen, which shows one at a time."""

from __future__ import annotations

from collections.abc import Sequence

from textual.message import Message

from gputop.tui.drawing.line import Span, text_width
from gputop.tui.widgets.lines import LinesWidget


class TabBar(LinesWidget):
    """One line of digits and names; a click chooses one. Takes no focus."""

    DEFAULT_CSS = "TabBar { height: 1; }"

    class Chosen(Message):
        """The user clicked the name of pane ``place`` (from 0)."""

        def __init__(self, place: int) -> None:
            super().__init__()
            self.place = place

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(id="tabs")
        self.names = tuple(names)
        self._ends: list[int] = []

    def choose(self, place: int) -> None:
        """Highlight the name of the pane that has the focus."""
        spans, at = [Span(" ")], 1
        self._ends = []
        for number, name in enumerate(self.names):
            chosen = number == place
            text = f"[{name}]" if chosen else f" {name} "
            spans += [Span(str(number + 1), "key"), Span(text, "accent" if chosen else "dim"), Span(" ")]
            at += 1 + text_width(text) + 1
            self._ends.append(at)
        self.set_lines([tuple(spans)])

    def on_lines_widget_line_clicked(self, event: LinesWidget.LineClicked) -> None:
        """Report which name was clicked."""
        event.stop()
        place = next((number for number, end in enumerate(self._ends) if event.column < end), None)
        if place is not None:
            self.post_message(self.Chosen(place))
