"""A pane with one large chart, redrawn only when its contents or its size change."""

from __future__ import annotations

from gputop.tui.drawing.large_chart import Chart, draw, legend
from gputop.tui.drawing.line import Line
from gputop.tui.drawing.runs.overlay import readout
from gputop.tui.widgets.ruled import RuledPane


class ChartPane(RuledPane):
    """Shows a ``Chart`` below its legend."""

    def __init__(self, title: str = "", *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(title, can_focus=False, id=id)
        self.chart: Chart | None = None
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
