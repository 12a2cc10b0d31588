"""A pane with one large chart, redrawn only when its contents or its size change."""

from __future__ import annotations

from textual import events
from textual.message import Message

from gputop.tui.drawing.large_chart import LABEL_COLUMNS, Chart, draw, legend
from gputop.tui.drawing.line import Line
from gputop.tui.drawing.runs.overlay import readout
from gputop.tui.widgets.ruled import RuledPane

MARGIN_CELLS = 1
"""What a ruled pane leaves blank at its left."""
DRAG_CELLS_MIN = 2
"""A shorter drag is a click."""
WHEEL_FACTOR = 1.5
"""By what factor a turn of the wheel widens or narrows the visible part."""


class ChartPane(RuledPane):
    """Shows a ``Chart`` below its legend. The mouse reads values, selects a range, and zooms."""

    class Pointed(Message):
        """The user clicked at this x."""

        def __init__(self, x: float) -> None:
            super().__init__()
            self.x = x

    class Selected(Message):
        """The user dragged from one x to another."""

        def __init__(self, first: float, last: float) -> None:
            super().__init__()
            self.first = first
            self.last = last

    class Zoomed(Message):
        """The user turned the wheel: the visible part becomes ``factor`` times as wide around ``x``."""

        def __init__(self, factor: float, x: float) -> None:
            super().__init__()
            self.factor = factor
            self.x = x

    def __init__(self, title: str = "", *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(title, can_focus=False, id=id)
        self.chart: Chart | None = None
        self._pressed_at: int | None = None
        self.drawings = 0
        """How many charts were drawn: an unchanged chart is not redrawn."""

    def chart_size(self) -> tuple[int, int]:
        """Return the columns and rows available to the chart itself."""
        return self.inner_size.width, max(0, self.inner_size.height - 1)

    def show_chart(self, chart: Chart, *, title: Line, subtitle: Line = (), footer: Line = ()) -> None:
        """Show this chart."""
        lines = self.lines
        if chart != self.chart:
            self.chart = chart
            self.drawings += 1
            lines = (readout(chart) or legend(chart), *draw(chart))
        self.set_content(lines, title=title, subtitle=subtitle, footer=footer)

    def show_words(self, lines: tuple[Line, ...], *, title: Line) -> None:
        """Show text instead of a chart."""
        self.chart = None
        self.set_content(lines, title=title)

    # The mouse

    def _x_of(self, cell: int) -> float | None:
        """Return the x under a cell of the pane; None while there is no chart."""
        if self.chart is None:
            return None
        cells = max(1, self.chart.width - LABEL_COLUMNS - 1)
        share = (cell - MARGIN_CELLS - LABEL_COLUMNS - 1 + 0.5) / cells
        return self.chart.x_at(min(1.0, max(0.0, share)))

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Begin a click or a drag."""
        if event.button == 1 and self.chart is not None:
            self._pressed_at = event.x
            self.capture_mouse()

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """End a click or a drag."""
        pressed, self._pressed_at = self._pressed_at, None
        self.release_mouse()
        first = None if pressed is None else self._x_of(pressed)
        last = self._x_of(event.x)
        if pressed is None or first is None or last is None:
            return
        if abs(event.x - pressed) < DRAG_CELLS_MIN:
            self.post_message(self.Pointed(last))
        else:
            self.post_message(self.Selected(first, last))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Zoom in."""
        self._zoom(event, 1 / WHEEL_FACTOR)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Zoom out."""
        self._zoom(event, WHEEL_FACTOR)

    def _zoom(self, event: events.MouseEvent, factor: float) -> None:
        event.stop()
        event.prevent_default()
        x = self._x_of(event.x)
        if x is not None:
            self.post_message(self.Zoomed(factor, x))
