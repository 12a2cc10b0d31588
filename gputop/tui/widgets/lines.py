"""The base of every live widget: a tuple of lines, of which only changed rows are repainted.

``tui/terminal/shown.py`` finds out which cells of such a row differ from what the terminal shows. A widget paints and scrolls
by itself, because each nested widget adds layout and style work to every refresh. ``pane`` draws a titled box around it. No
hover styles, no animation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from gputop.tui.drawing.late_lines import LateLines
from gputop.tui.drawing.line import (
    Line,
    Span,
    ascii_line,
    clean_row,
    cut,
    full_row,
)
from gputop.tui.terminal.painting import CellPainter, look_of, styles_of
from gputop.tui.terminal.palette import THEMES, palette, theme_name
from gputop.tui.terminal.settled_screen import SettledScreen

__all__ = ["THEMES", "LinesWidget", "palette", "theme_name"]

WHEEL_LINES = 3
"""Lines that a turn of the wheel scrolls."""


def _kept(lines: Sequence[Line]) -> Sequence[Line]:
    """Return lines that stay as they are; those of a long list are drawn when they are seen."""
    return lines if isinstance(lines, LateLines) else tuple(lines)


class LinesWidget(Widget):
    """Shows lines; call ``set_lines`` as often as you like: unchanged rows are not repainted.

    With a ``cursor``, the arrow keys move it (``CursorMoved``); without one, they scroll.
    """

    DEFAULT_CSS = "LinesWidget { height: 1fr; }"
    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up", "line(-1)", "up", show=False),
        Binding("down", "line(1)", "down", show=False),
        Binding("pageup", "page(-1)", "up by a page", show=False),
        Binding("pagedown", "page(1)", "down by a page", show=False),
        Binding("home", "edge(-1)", "to the first line", show=False),
        Binding("end", "edge(1)", "to the last line", show=False),
    ]

    class CursorMoved(Message):
        """The user moved the cursor to line ``index``."""

        def __init__(self, widget: LinesWidget, index: int) -> None:
            super().__init__()
            self.widget = widget
            self.index = index

        @property
        def control(self) -> LinesWidget:
            """The widget whose cursor moved."""
            return self.widget

    class LineClicked(Message):
        """The user clicked line ``index`` at ``column`` (cells from the line's start); ``chain`` is 2 for a double click."""

        def __init__(self, widget: LinesWidget, index: int, column: int, chain: int = 1) -> None:
            super().__init__()
            self.widget = widget
            self.index = index
            self.column = column
            self.chain = chain

        @property
        def control(self) -> LinesWidget:
            """The widget that was clicked."""
            return self.widget

    def __init__(
        self,
        lines: Sequence[Line] = (),
        *,
        can_focus: bool = False,
        id: str | None = None,  # noqa: A002 - Textual's own name
        classes: str | None = None,
    ) -> None:
        super().__init__(id=id, classes=classes)
        self.can_focus = can_focus
        self.lines: Sequence[Line] = _kept(lines)
        self.cursor: int | None = None
        self.first = 0
        """Index of the first visible line."""
        self.header_lines = 0
        """This many lines at the top stay in place while the others scroll (a table's heading)."""
        self._rows: list[Line] = []
        self._rows_size: Size | None = None
        self._state: tuple[object, ...] = ()
        self._size_now: Size | None = None
        self.ascii = False
        """True shows only ASCII, whatever the lines contain."""

    # Contents

    def set_lines(self, lines: Sequence[Line], cursor: int | None = None) -> None:
        """Show these lines; the cursor's line stays visible."""
        self.take_lines(lines, cursor)
        self.repaint()

    def take_lines(self, lines: Sequence[Line], cursor: int | None = None) -> None:
        """Set the lines without painting: for use in ``resized``."""
        self.lines = _kept(lines)
        self.cursor = None if cursor is None or not self.lines else min(max(0, cursor), len(self.lines) - 1)
        if self.cursor is not None:
            self._reveal(self.cursor)

    def draw_ascii(self, only: bool) -> None:
        """Show only ASCII from now on, or again all characters, even if the lines stay as they are."""
        if self.ascii != only:
            self.ascii = only
            self.repaint()

    @property
    def size(self) -> Size:
        """Columns and rows of the widget."""
        return self._size_now or super().size

    @contextmanager
    def of_one_size(self) -> Iterator[None]:
        """Look the size up only once until the end: Textual searches its layout for it, and drawing asks for it often."""
        before = self._size_now
        self._size_now = self.size
        try:
            yield
        finally:
            self._size_now = before

    @property
    def inner_size(self) -> Size:
        """Columns and rows available to the lines, without the frame."""
        return self.size

    def visible_lines(self) -> list[tuple[int, Line]]:
        """Return (index, line) for each visible line."""
        height = self.inner_size.height
        fixed = min(self.header_lines, height, len(self.lines))
        self.first = min(max(fixed, self.first), max(fixed, len(self.lines) - (height - fixed)))
        last = self.first + height - fixed
        return [
            *enumerate(self.lines[:fixed]),
            *enumerate(self.lines[self.first : last], start=self.first),
        ]

    def build_rows(self) -> list[Line]:
        """Return every row of the widget at full width; ``Pane`` adds its frame around them."""
        columns = self.inner_size.width
        rows = [full_row(line, columns, index == self.cursor) for index, line in self.visible_lines()]
        rows.extend([(Span(" " * columns),)] * (self.inner_size.height - len(rows)))
        return rows

    # Painting

    def repaint(self) -> None:
        """Compare with what is on screen and refresh only the rows that differ."""
        with self.of_one_size():
            if not self.size or self._rows_size != self.size:
                self._rows_size = None
                self.refresh()
                return
            state = self.state()
            if state == self._state:
                return
            self._state = state
            screen = self.screen
            old, self._rows = self._rows, self._built()
            columns = self.size.width
            regions = [
                Region(0, y, columns, 1)
                for y, (before, after) in enumerate(zip(old, self._rows, strict=True))
                if before != after
            ]
        if regions and isinstance(screen, SettledScreen):
            screen.note_changed(self, regions)
        elif regions:
            self.refresh(*regions)

    def state(self) -> tuple[object, ...]:
        """Return everything that the rows depend on: while it is unchanged, nothing is rebuilt."""
        shown = tuple(self.visible_lines())
        return shown, len(self.lines), self.cursor, self.first, self.header_lines, self.ascii, self.size

    def _built(self) -> list[Line]:
        columns, height = self.size
        rows = [clean_row(row, columns) for row in self.build_rows()[:height]]
        rows += [(Span(" " * columns),)] * (height - len(rows))  # painters rely on a row for every line of the widget
        return [ascii_line(row) for row in rows] if self.ascii else rows

    def render_line(self, y: int) -> Strip:
        """Return row ``y`` in the colors of the theme."""
        self._take_size()
        if y >= len(self._rows):
            return Strip.blank(self.size.width)
        styles = styles_of(look_of(self))
        return Strip([Segment(text, styles[style]) for text, style in self._rows[y]], self.size.width)

    def cell_painter(self) -> CellPainter | None:
        """Return a painter for cells [start, end) of row ``y``; None for a translucent widget.

        It paints what ``render_line`` and Textual's filters would, without rendering the rest of the row.
        """
        if self.opacity != 1.0:
            return None
        self._take_size()
        rows, styles, columns = self._rows, styles_of(look_of(self, filtered=True)), self.size.width

        def paint(y: int, start: int, end: int) -> list[tuple[str, Style]]:
            row = rows[y] if end - start == columns else cut(rows[y], start, end)
            return [(text, styles[style]) for text, style in row]

        return paint

    def _take_size(self) -> None:
        """Build the rows for a new size."""
        if self._rows_size != self.size:
            self.resized()
            if self.cursor is not None:
                self._reveal(self.cursor)
            self._rows = self._built()
            self._rows_size, self._state = self.size, ()

    def resized(self) -> None:
        """Called before the first paint at a new size: subclasses lay out their lines here (without ``repaint``)."""

    # Moving

    def action_line(self, by: int) -> None:
        """Move the cursor, or scroll, by lines."""
        self._move(by)

    def action_page(self, by: int) -> None:
        """Move the cursor, or scroll, by pages."""
        self._move(by * max(1, self.inner_size.height - self.header_lines - 1))

    def action_edge(self, by: int) -> None:
        """Move the cursor, or scroll, to the first or last line."""
        self._move(by * len(self.lines))

    def _move(self, by: int) -> None:
        if self.cursor is None:
            self.scroll_lines(by)
            return
        target = min(max(self.header_lines, self.cursor + by), len(self.lines) - 1)
        if target != self.cursor:
            self.cursor = target
            self._reveal(target)
            self.repaint()
            self.post_message(self.CursorMoved(self, target))

    def scroll_lines(self, by: int) -> None:
        """Scroll without moving the cursor; stops at the ends."""
        self.first += by
        self.repaint()

    def _reveal(self, index: int) -> None:
        room = self.inner_size.height - self.header_lines
        if room <= 0 or index < self.header_lines:
            return
        self.first = max(min(self.first, index), index - room + 1, self.header_lines)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll down."""
        self.scroll_lines(WHEEL_LINES)
        event.stop()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll up."""
        self.scroll_lines(-WHEEL_LINES)
        event.stop()

    def on_click(self, event: events.Click) -> None:
        """Report which line was clicked."""
        index, column = self.line_at(event.x, event.y)
        if index is not None:
            self.post_message(self.LineClicked(self, index, column, event.chain))

    def line_at(self, x: int, y: int) -> tuple[int | None, int]:
        """Return the index of the line at a position in the widget, and the cell in it; the index is None outside the lines."""
        shown = self.visible_lines()
        return (shown[y][0], x) if 0 <= y < len(shown) else (None, x)
