"""What panes with a typed filter share: keys go to the filter while it is typed, so that letters trigger no action."""

from __future__ import annotations

from textual import events

from gputop.tui.drawing.line import Line, clean, line
from gputop.tui.widgets.pane import Pane

SHOWN_CELLS_MOST = 40
"""The end of a longer filter is shown, so that what is being typed stays visible."""
_LEFT_TO_OTHERS = ("tab", "shift+tab", "ctrl+c", "ctrl+l", "f1", "f2", "f10")
"""Nobody means to type these, and they do the same on every screen."""


class TypedFilter(Pane):
    """A pane whose lines are filtered while the user types."""

    typing = False

    def filter_text(self) -> str:
        """Return the filter as typed so far."""
        raise NotImplementedError

    def set_filter(self, text: str) -> None:
        """Take a filter, even an invalid one, and redraw."""
        raise NotImplementedError

    def input_line(self) -> Line:
        """Return the line that shows what is typed."""
        text = clean(self.filter_text())
        shown = (text if len(text) <= SHOWN_CELLS_MOST else "…" + text[-SHOWN_CELLS_MOST:]) + "_" * self.typing
        return line(("filter: ", "key"), (shown, "value"), (f"  {'Enter keeps, ' * self.typing}Esc clears", "dim"))

    def start_typing(self) -> None:
        """Let the user type a filter; it applies from the first letter."""
        self.typing = True
        self.set_filter(self.filter_text())

    def stop_typing(self, keep: bool = True) -> None:
        """Stop typing; unless ``keep`` is True, clear the filter."""
        self.typing = False
        self.set_filter(self.filter_text() if keep else "")

    def on_key(self, event: events.Key) -> None:
        """Capture the keys while a filter is typed, except those that work everywhere.

        The key that starts it is taken here too: as a binding of the screen, it would come after the letters of a quick typist.
        """
        if event.key == "slash" and not self.typing:
            event.stop()
            event.prevent_default()
            self.start_typing()
            return
        if not self.typing or event.key in _LEFT_TO_OTHERS:
            return
        event.stop()
        event.prevent_default()
        if event.key == "enter":
            self.stop_typing()
        elif event.key == "escape":
            self.stop_typing(keep=False)
        elif event.key in ("backspace", "ctrl+h"):
            self.set_filter(self.filter_text()[:-1])
        elif event.key in ("ctrl+u", "ctrl+w"):
            self.set_filter("")
        elif event.key in ("up", "down"):
            self.action_line(-1 if event.key == "up" else 1)
        elif event.is_printable and event.character:
            self.set_filter(self.filter_text() + event.character)

    def on_paste(self, event: events.Paste) -> None:
        """Append the first line of a paste to the filter being typed."""
        if self.typing:
            event.stop()
            self.set_filter(self.filter_text() + clean((event.text.splitlines() or [""])[0]))

    def on_blur(self) -> None:
        """Keep the filter when the pane loses the focus."""
        if self.typing:
            self.stop_typing()
