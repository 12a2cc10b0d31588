"""The grid of a run's metrics: a search by name, pages, and one metric that Enter opens large."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from gputop.tui.drawing.large_chart import Chart
from gputop.tui.drawing.line import Line, Span, clean, line
from gputop.tui.drawing.runs.grid import GAP_CELLS, Shape, found, grid_lines, shape_of
from gputop.tui.widgets.lines import LinesWidget
from gputop.tui.widgets.ruled import RuledPane
from gputop.tui.widgets.typed_filter import TypedFilter


class MetricGrid(TypedFilter, RuledPane):
    """Shows a page of small charts; the arrow keys choose one."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "cell(-1)", "metric to the left", show=False),
        Binding("right", "cell(1)", "metric to the right", show=False),
        Binding("enter", "open", "the chosen metric large", show=False),
    ]

    class Opened(Message):
        """The user wants to see this metric large."""

        def __init__(self, metric: str) -> None:
            super().__init__()
            self.metric = metric

    def __init__(self) -> None:
        super().__init__("Metrics", id="grid")
        self.names: tuple[str, ...] = ()
        self.chosen = ""
        self.chart_of: Callable[[str, int, int], Chart | None] = lambda name, width, height: None
        self._text = ""
        self._shape = Shape(1, 1, 1, 1)

    def set_metrics(self, names: tuple[str, ...], chart_of: Callable[[str, int, int], Chart | None]) -> None:
        """Show these metrics; ``chart_of`` makes the chart of a metric for the given columns and lines; None without values."""
        self.names, self.chart_of = names, chart_of
        self.lay_out()

    @property
    def _found(self) -> tuple[str, ...]:
        return found(self.names, self._text)

    def lay_out(self) -> None:
        """Draw the page with the chosen metric."""
        columns, rows = self.inner_size
        if rows < 1:
            self.set_content(())  # It has no space yet, which says nothing about its metrics.
            return
        names = self._found
        if not names:
            text = "No metric has this in its name; Esc clears the search." if self.names else "No metric yet."
            self.set_content(((Span(text, "dim"),),), subtitle=self._searched(0, 1, 1))
            return
        if self.chosen not in names:
            self.chosen = names[0]
        self._shape = shape = shape_of(len(names), max(1, columns), rows)
        page = names.index(self.chosen) // shape.cells
        shown = names[page * shape.cells : (page + 1) * shape.cells]
        cells = [(name, self.chart_of(name, shape.columns, shape.lines - 1)) for name in shown]
        lines = grid_lines(cells, shape, self.chosen, self.ascii)
        self.set_content(lines, subtitle=self._searched(len(names), page + 1, -(-len(names) // shape.cells)))

    def _searched(self, count: int, page: int, pages: int) -> Line:
        every = f"{len(self.names)} metric{'s' * (len(self.names) != 1)}"
        parts = [f"{count} of {every}" if self._text else every]
        parts += [f"page {page} of {pages}"] if pages > 1 else []
        typed = (clean(self._text) + ("_" if self.typing else ""), "value") if self._text or self.typing else ("search", "dim")
        return line((", ".join(parts), "dim"), ("  / ", "key"), typed)

    def filter_text(self) -> str:
        """Return the search as typed so far."""
        return self._text

    def set_filter(self, text: str) -> None:
        """Show the metrics whose names contain every word."""
        self._text = text
        self.lay_out()

    # Moving

    def _choose(self, by: int) -> None:
        names = self._found
        if names:
            held = names.index(self.chosen) if self.chosen in names else 0
            self.chosen = names[min(len(names) - 1, max(0, held + by))]
            self.lay_out()

    def action_cell(self, by: int) -> None:
        """Choose the next or previous metric."""
        self._choose(by)

    def action_line(self, by: int) -> None:
        """Choose the metric above or below."""
        self._choose(by * self._shape.across)

    def action_page(self, by: int) -> None:
        """Show the next or previous page."""
        self._choose(by * self._shape.cells)

    def action_edge(self, by: int) -> None:
        """Choose the first or last metric."""
        self._choose(by * len(self.names))

    def action_open(self) -> None:
        """Open the chosen metric."""
        if self.chosen in self._found:
            self.post_message(self.Opened(self.chosen))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Show the next page."""
        event.stop()
        event.prevent_default()
        self.action_page(1)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Show the previous page."""
        event.stop()
        event.prevent_default()
        self.action_page(-1)

    def on_lines_widget_line_clicked(self, event: LinesWidget.LineClicked) -> None:
        """Choose the clicked metric; a second click opens it."""
        event.stop()
        names, shape = self._found, self._shape
        if not names:
            return
        page = names.index(self.chosen) // shape.cells if self.chosen in names else 0
        across = min(shape.across - 1, event.column // (shape.columns + GAP_CELLS))
        place = page * shape.cells + event.index // shape.lines * shape.across + across
        if place >= len(names):
            return
        if names[place] == self.chosen:
            self.action_open()
        self.chosen = names[place]
        self.lay_out()
