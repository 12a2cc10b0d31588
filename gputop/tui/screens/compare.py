"""Compares the jobs of one kind: speed-up, efficiency, time per epoch and their losses, on 1, 2, 4 … GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message

from gputop.jobs import store
from gputop.jobs.store import Job
from gputop.tui.drawing import comparison
from gputop.tui.drawing.large_chart import Chart
from gputop.tui.drawing.line import Line, Span, clean
from gputop.tui.drawing.prose import BLANK, wrapped
from gputop.tui.drawing.runs.learned import loss_chart
from gputop.tui.screens.base import KeyHint, SubScreen
from gputop.tui.state.released_worker import releasing_worker
from gputop.tui.state.view import View
from gputop.tui.widgets.chart import ChartPane
from gputop.tui.widgets.ruled import RuledPane

POLL_S = 1.0
RULE_LINES, LOSS_LINES_MIN = 1, 9
"""A chart with its legend and fewer lines than this shows little of its curves."""


class CompareScreen(SubScreen):
    """Compares the jobs that differ from ``job_id`` only in their number of GPUs; left and right choose another kind."""

    NAME = "compare"
    DEFAULT_CSS = "CompareScreen #loss { height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("c", "back", "back", show=False),
        Binding("left", "kind(-1)", "previous quantity", show=False),
        Binding("right", "kind(1)", "next quantity", show=False),
    ]
    HINTS = (KeyHint("Left/Right", "other jobs", "screen.kind(1)"),)

    class Polled(Message):
        """The current jobs."""

        def __init__(self, found: list[Job]) -> None:
            super().__init__()
            self.found = found

    def __init__(self, found: Sequence[Job], job_id: str | None, view: View | None = None) -> None:
        super().__init__(view)
        self.jobs = list(found)
        chosen = next((job for job in found if job.id == job_id), None)
        self._curves: tuple[str, Chart] | None = None
        """The name and the chart of the losses, set by ``set_heights``; None if there is no room for them."""
        self.like: Job | None = chosen or next((job for job in found if job.recipe_id), None)

    def compose_body(self) -> ComposeResult:
        """Yield the table, the bars and the curves."""
        yield RuledPane("Jobs that differ only in their GPUs", id="table")
        yield RuledPane("Speed-up", id="chart")
        yield ChartPane("Loss", id="loss")

    def on_mount(self) -> None:
        """Start polling the jobs."""
        self.focus_now(self.query_one("#table"))
        self.set_interval(POLL_S, self.poll)

    def head_text(self, view: View) -> Line:
        """Name the recipe."""
        return (Span(clean((self.like.recipe_id or self.like.name) if self.like else ""), "value"),)

    def set_heights(self) -> None:
        """Give the table and the bars the lines that they need, and the curves the others."""
        super().set_heights()
        if self.view is None:
            return
        table, chart = self.query_one("#table", RuledPane), self.query_one("#chart", RuledPane)
        loss = self.query_one("#loss", ChartPane)
        lines, bars = self._lines(self.view, max(20, table.inner_size.width))
        room = self.size.height - 2 - (RULE_LINES + len(lines)) - (RULE_LINES + len(bars))
        self._curves = self._loss(self.view, loss) if room >= RULE_LINES + LOSS_LINES_MIN else None
        loss.display = self._curves is not None
        table.styles.height = RULE_LINES + len(lines) if room >= 0 else "1fr"
        chart.styles.height = RULE_LINES + len(bars) if loss.display else "1fr"

    def draw(self, view: View) -> None:
        """Draw the table, the bars and the curves."""
        table, chart = self.query_one("#table", RuledPane), self.query_one("#chart", RuledPane)
        lines, bars = self._lines(view, max(20, table.inner_size.width))
        table.header_lines = 1 if self.like is not None else 0
        table.set_content(lines)
        chart.set_content(bars)
        if self._curves is not None:
            name, curves = self._curves
            loss = self.query_one("#loss", ChartPane)
            title, over = (Span(clean(name), "title"),), (Span("over time since start", "dim"),)
            loss.show_chart(replace(curves, height=loss.chart_size()[1]), title=title, subtitle=over)

    def _lines(self, view: View, width: int) -> tuple[tuple[Line, ...], tuple[Line, ...]]:
        """Return the lines of the table and of the bars."""
        if self.like is None:
            return wrapped("No job yet. On the launch screen, F6 runs the chosen recipe at 1, 2, 4 GPUs.", width, "dim"), ()
        ascii_only = view.settings.ascii
        found = comparison.reached_by(self.jobs, self.like, view.snapshot, view.history)
        lines = comparison.table(found, view.snapshot, width, ascii_only)
        if len(found) < 2:
            only = "Only one number of GPUs so far: F6 on the launch screen runs the others."
            lines = (*lines, BLANK, *wrapped(only, width, "dim"))
        return lines, comparison.chart(found, width, ascii_only)

    def _loss(self, view: View, pane: ChartPane) -> tuple[str, Chart] | None:
        if self.like is None:
            return None
        found = comparison.reached_by(self.jobs, self.like, view.snapshot, view.history)
        return loss_chart(found, view, max(20, self.size.width - 2), max(1, pane.chart_size()[1]))

    def action_kind(self, by: int) -> None:
        """Compare the jobs of the next recipe or the next form values."""
        kinds = {comparison.kind_of(job): job for job in self.jobs if job.device_uuids}
        if self.like is None or not kinds:
            return
        listed = list(kinds)
        here = comparison.kind_of(self.like)
        self.like = kinds[listed[((listed.index(here) if here in listed else 0) + by) % len(listed)]]
        self.settle()

    @work(thread=True, exclusive=True)
    @releasing_worker
    def poll(self) -> None:
        """Poll the jobs."""
        self.post_message(self.Polled(store.list_jobs()))

    def on_compare_screen_polled(self, event: Polled) -> None:
        """Draw the polled jobs."""
        self.jobs = event.found
        self.settle()
