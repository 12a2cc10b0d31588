"""A box of lines with a title, a digit and a scroll position, which draws its own frame."""

from __future__ import annotations

from collections.abc import Sequence

from textual.geometry import Size

from gputop.tui.drawing.line import Line, Span, clip, fit, width
from gputop.tui.widgets.lines import LinesWidget

_ROUND = ("╭", "╮", "╰", "╯", "─", "│", "▸")
_ASCII = ("+", "+", "+", "+", "-", "|", ">")


class Pane(LinesWidget):
    """A box with a title, the digit that focuses it, and a placeholder for when it is empty.

    The frame is part of the widget's own rows: corners and title above, ``footer`` and the scroll position below.
    """

    DEFAULT_CSS = "Pane { height: 1fr; width: 1fr; }"

    def __init__(
        self,
        title: str = "",
        digit: str = "",
        *,
        can_focus: bool = True,
        id: str | None = None,  # noqa: A002 - Textual's own name
        classes: str | None = None,
    ) -> None:
        super().__init__(can_focus=can_focus, id=id, classes=classes)
        self.title: Line = (Span(title, "title"),)
        self.digit = digit
        self.subtitle: Line = ()
        self.footer: Line = ()

    def set_content(
        self,
        lines: Sequence[Line],
        *,
        title: Line | None = None,
        subtitle: Line = (),
        footer: Line = (),
        cursor: int | None = None,
    ) -> None:
        """Show lines (``empty_lines`` if there are none), title, subtitle (right) and footer, in a single repaint."""
        if title is not None:
            self.title = title
        self.subtitle, self.footer = subtitle, footer
        self.set_lines(lines or self.empty_lines(), cursor)

    def empty_lines(self) -> tuple[Line, ...]:
        """Return what an empty pane shows: how to fill it."""
        return ((Span("Nothing to show yet.", "dim"),),)

    @property
    def inner_size(self) -> Size:
        """Space inside the frame: one border and one blank cell on each side."""
        return Size(max(0, self.size.width - 4), max(0, self.size.height - 2))

    def state(self) -> tuple[object, ...]:
        """Also return what the frame depends on."""
        return *super().state(), self.title, self.subtitle, self.footer, self.digit, self.has_focus

    def build_rows(self) -> list[Line]:
        """Return the rows with the frame around them."""
        columns, height = self.size
        if height < 3 or columns < 8:
            return [fit(line, columns) for line in (self.title, *self.lines)[:height]]
        edge = "accent" if self.has_focus else "dim"
        side = (_ASCII if self.ascii else _ROUND)[5]
        left, right = Span(f"{side} ", edge), Span(f" {side}", edge)
        return [self._top(edge), *((left, *row, right) for row in super().build_rows()), self._bottom(edge)]

    @property
    def title_cells(self) -> int:
        """How many cells the frame has for a title without a subtitle."""
        return max(0, self.size.width - (7 if self.digit else 5))

    def _top(self, edge: str) -> Line:
        corner, other, _, _, bar, _, mark = _ASCII if self.ascii else _ROUND
        columns = self.size.width
        start = [Span(corner + (mark if self.has_focus else " "), edge)]
        if self.digit:
            start.append(Span(f"{self.digit} ", "key"))
        room = columns - 2 - width(tuple(start))
        subtitle = clip(self.subtitle, max(0, room - width(self.title) - 4))
        if width(subtitle) < min(4, width(self.subtitle)):
            subtitle = ()
        tail = (Span(" "), *subtitle, Span(f" {bar}", edge)) if subtitle else ()
        title = clip(self.title, max(0, room - width(tail) - 1))
        fill = room - width(title) - width(tail)
        return (*start, *title, Span(f" {bar * fill}", edge), *tail, Span(other, edge))

    def _bottom(self, edge: str) -> Line:
        _, _, corner, other, bar, _, _ = _ASCII if self.ascii else _ROUND
        columns = self.size.width
        position = self._position()
        tail = (Span(" "), *position, Span(f" {bar}", edge)) if position else ()
        footer = clip(self.footer, max(0, columns - 6 - width(tail)))
        head = (Span(f"{corner}{bar} ", edge), *footer, Span(" ")) if footer else (Span(f"{corner}{bar}", edge),)
        fill = columns - 1 - width(head) - width(tail)
        return (*head, Span(bar * fill, edge), *tail, Span(other, edge))

    def _position(self) -> Line:
        """Return which lines are visible, if not all are."""
        fixed = self.header_lines
        total, room = len(self.lines) - fixed, self.inner_size.height - fixed
        if total <= room or room <= 0:
            return ()
        first = self.first - fixed + 1
        return (Span(f"{first}-{first + room - 1} of {total}", "dim"),)

    def line_at(self, x: int, y: int) -> tuple[int | None, int]:
        """Return the line at a position, taking the frame into account."""
        return super().line_at(x - 2, y - 1)

    def watch_has_focus(self, has_focus: bool) -> None:
        """Show in the frame whether the pane has the focus. (``on_focus`` would run before Textual sets ``has_focus``.)"""
        super().watch_has_focus(has_focus)
        self.repaint()
