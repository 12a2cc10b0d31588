"""The list of what can be started, with a search: "/" and a few letters keep the entries that contain them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from textual import events
from textual.message import Message

from gputop.tui.drawing.line import Line, Span
from gputop.tui.screens.launch.listing import Entry
from gputop.tui.widgets.choice_list import ChoiceList

_EntryT = TypeVar("_EntryT", bound=Entry)


class RecipeList(ChoiceList):
    """Shows the entries. While it searches, every printable key belongs to the search."""

    class Sought(Message):
        """The searched text changed."""

    sought: str | None = None
    """The searched text; None while nothing is searched for."""

    def found(self, entries: Iterable[_EntryT]) -> list[_EntryT]:
        """Return the entries that contain every word of the searched text."""
        words = (self.sought or "").casefold().split()
        return [entry for entry in entries if all(word in f"{entry.key} {entry.summary}".casefold() for word in words)]

    def search_line(self) -> Line:
        """Return the searched text, as the list's frame shows it."""
        if self.sought is None:
            return (Span("/ search", "dim"),)
        return (Span("/", "key"), Span(f"{self.sought}_", "value"))

    def on_key(self, event: events.Key) -> None:
        """Begin, change or end the search."""
        if self.sought is None:
            if event.character != "/":
                return
            text: str | None = ""
        elif event.key == "escape":
            text = None
        elif event.key == "backspace":
            text = self.sought[:-1]
        elif event.is_printable and event.character:
            text = self.sought + event.character
        else:
            return
        event.stop()
        event.prevent_default()
        self.sought = text
        self.post_message(self.Sought())
