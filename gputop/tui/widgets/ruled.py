"""Panes below a rule with their title, instead of in a box: it saves a row and two columns."""

from __future__ import annotations

from textual.geometry import Size

from gputop.tui.drawing.line import Drawing, Line, Span, clip, fit, joined, line, named_on, width
from gputop.tui.state.view import View
from gputop.tui.widgets.lines import LinesWidget
from gputop.tui.widgets.pane import Pane

TAIL_CELLS_MIN = 12
"""Less of a note than this is useless."""


def named_keys(*keys: tuple[str, str]) -> Line:
    """Return keys with what they do."""
    return joined((line((key, "key"), (f" {what}", "dim")) for key, what in keys), Span("  "))


class RuledPane(Pane):
    """A pane whose rule holds what a box has in its upper and lower edges, and the names of its columns."""

    heading: Line = ()

    @property
    def inner_size(self) -> Size:
        """Space below the rule, with one blank cell on each side."""
        columns, rows = self.size
        return Size(max(0, columns - 2), max(0, rows - 1))

    def build_rows(self) -> list[Line]:
        """Return the rule and the rows below it."""
        columns, height = self.size
        if height < 1 or columns < 8:
            return [fit(row, columns) for row in (self.title, *self.lines)[:height]]
        edge = "accent" if self.has_focus else "track"
        return [self._rule(edge), *((Span(" "), *row, Span(" ")) for row in LinesWidget.build_rows(self))]

    def _rule(self, edge: str) -> Line:
        bar, mark = ("-", ">") if self.ascii else ("─", "▸")
        start = (Span(mark if self.has_focus else bar, edge), Span(f" {self.digit} " if self.digit else " ", "key"))
        room = self.size.width - width(start) - 1
        keys = self.own_keys() if self.has_focus else ()
        parts = [part for part in (self.footer, self.subtitle, self._position(), keys) if part]
        tail: Line = ()
        # What does not fit next to the title is left out, the last part first.
        for count in range(len(parts), 0, -1):
            tail = joined(parts[:count], Span("  "))
            if width(self.title) + width(tail) + 4 <= room:
                break
            tail = ()
        if not tail and parts:
            tail = clip(parts[0], max(0, room - width(self.title) - 4))
            tail = tail if width(tail) >= TAIL_CELLS_MIN else ()
        end = (Span(" "), *tail, Span(f" {bar}", edge)) if tail else ()
        title = clip(self.title, max(0, room - width(end)))
        fill = room - width(title) - width(end) + 1
        if fill <= 0:
            return (*start, *title, *end)
        named = width((*start, *title)) + 1
        rule = (*start, *title, Span(" " + bar * (fill - 1), edge), *end)
        return named_on(rule, (Span(" "), *self.heading), named, named + fill - 1)

    def state(self) -> tuple[object, ...]:
        """Also return what the rule depends on."""
        return *super().state(), self.heading

    def own_keys(self) -> Line:
        """Return the keys that only this pane answers to, which its rule names while it has the focus."""
        return ()

    def line_at(self, x: int, y: int) -> tuple[int | None, int]:
        """Return the line at a position, taking the rule into account."""
        return LinesWidget.line_at(self, x - 1, y - 1)


class ViewPane(RuledPane):
    """A ruled pane that draws itself from the view: ``drawing`` returns its lines for the current size."""

    def __init__(self, title: str, digit: str, *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(title, digit, id=id)
        self.view: View | None = None
        self._formed: Size | None = None
        """The size that the lines of this view were laid out for."""

    def show(self, view: View) -> None:
        """Draw this view; a hidden pane only stores it."""
        self.view, self._formed = view, None
        if self.display and self.is_mounted:
            with self.of_one_size():
                if self.size:
                    self.form(view)
                    self.repaint()

    def show_again(self) -> None:
        """Redraw the current view after the pane's own state changed."""
        if self.view is not None:
            self.show(self.view)

    def resized(self) -> None:
        """Lay out the lines for the new size, unless the newest view was laid out for it."""
        if self.view is not None and self._formed != self.size:
            self.form(self.view)

    def form(self, view: View) -> None:
        """Take the lines from the view without painting."""
        self._formed, self.ascii = self.size, view.settings.ascii
        drawing = self.drawing(view, *self.inner_size)
        self.title, self.subtitle, self.footer = drawing.title, drawing.subtitle, drawing.footer
        self.heading = drawing.heading
        self.take_lines(drawing.lines or self.empty_lines(), self.cursor_line())

    def drawing(self, view: View, columns: int, rows: int) -> Drawing:
        """Return what to show in ``columns`` cells and ``rows`` lines."""
        raise NotImplementedError

    def cursor_line(self) -> int | None:
        """Return the cursor's line; None for a pane without a cursor."""
        return None
