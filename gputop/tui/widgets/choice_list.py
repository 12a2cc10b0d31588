"""A pane with a list to choose from: the cursor skips lines that cannot be chosen, such as headings and explanations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from textual.binding import Binding, BindingType
from textual.message import Message

from gputop.tui.drawing.line import Line
from gputop.tui.widgets.lines import LinesWidget
from gputop.tui.widgets.pane import Pane


class Item(NamedTuple):
    """A line of the list; without a ``key`` it cannot be chosen."""

    line: Line
    key: str | None = None


class ChoiceList(Pane):
    """Shows items; the choice is kept by key while the items change."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "press", "choose", show=False)]

    class Chosen(Message):
        """The cursor moved to another item."""

        def __init__(self, widget: ChoiceList, key: str) -> None:
            super().__init__()
            self.widget = widget
            self.key = key

        @property
        def control(self) -> ChoiceList:
            """The list."""
            return self.widget

    class Pressed(Chosen):
        """Enter, or a click on the item already chosen."""

    def __init__(self, title: str = "", digit: str = "", *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(title, digit, id=id)
        self.items: tuple[Item, ...] = ()
        self.chosen: str | None = None

    def set_items(self, items: Sequence[Item], *, subtitle: Line = (), footer: Line = ()) -> None:
        """Show the items; the choice stays, or moves to the first item that can be chosen."""
        self.items = tuple(items)
        keys = [item.key for item in self.items if item.key is not None]
        if self.chosen not in keys:
            self.chosen = keys[0] if keys else None
        self.set_content([item.line for item in self.items], subtitle=subtitle, footer=footer, cursor=self._index())

    def choose(self, key: str) -> None:
        """Move the cursor to the item with this key, if there is one."""
        if any(item.key == key for item in self.items):
            self._choose(key)

    def _index(self) -> int | None:
        if self.chosen is None:
            return None
        return next((number for number, item in enumerate(self.items) if item.key == self.chosen), None)

    def _choose(self, key: str) -> None:
        if key == self.chosen:
            return
        self.chosen = key
        self.cursor = self._index()
        if self.cursor is not None:
            self._reveal_with_heading(self.cursor)
        self.repaint()
        self.post_message(self.Chosen(self, key))

    def _reveal_with_heading(self, index: int) -> None:
        """Also keep the heading above the first items visible."""
        above = index
        while above > 0 and self.items[above - 1].key is None:
            above -= 1
        self._reveal(above)
        self._reveal(index)

    def _move(self, by: int) -> None:
        places = [number for number, item in enumerate(self.items) if item.key is not None]
        if not places or self.cursor is None:
            self.scroll_lines(by)
            return
        if abs(by) == 1:
            at = places.index(self.cursor) + by
            target = places[min(max(0, at), len(places) - 1)]
        else:
            target = min(places, key=lambda place: abs(place - (self.cursor or 0) - by))
        key = self.items[target].key
        if key is not None:
            self._choose(key)

    def action_press(self) -> None:
        """Activate the chosen item."""
        if self.chosen is not None:
            self.post_message(self.Pressed(self, self.chosen))

    def on_lines_widget_line_clicked(self, event: LinesWidget.LineClicked) -> None:
        """Choose the clicked item."""
        event.stop()
        key = self.items[event.index].key if event.index < len(self.items) else None
        if key is not None:
            self._clicked(key)

    def _clicked(self, key: str) -> None:
        """Activate the item if it is already chosen, else choose it.

        Subclasses override this method, because Textual calls a message's handler in every class of the hierarchy.
        """
        if key == self.chosen:
            self.action_press()
        else:
            self._choose(key)
