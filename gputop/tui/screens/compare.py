"""Compares the jobs of one kind: speed-up, efficiency, time per epoch and what they learned, on 1, 2, 4 … GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message

from gputop.jobs import store
from gputop.jobs.store import Job
from gputop.tui.drawing import comparison
from gputop.tui.drawing.line import Line, Span, clean
from gputop.tui.drawing.prose import BLANK, wrapped
from gputop.tui.screens.base import KeyHint, SubScreen
from gputop.tui.state.let_go import letting_go
from gputop.tui.state.view import View
from gputop.tui.widgets.pane import Pane

POLL_S = 1.0


class CompareScreen(SubScreen):
    """Compares the jobs that differ from ``job_id`` only in their number of GPUs; left and right choose another kind."""

    NAME = "compare"
    DEFAULT_CSS = """
    CompareScreen #table { height: 1fr; }
    CompareScreen #chart { height: 1fr; }
    """
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
        self.like: Job | None = chosen or next((job for job in found if job.recipe_id), None)

    def compose_body(self) -> ComposeResult:
        """Yield the table and the chart."""
        yield Pane("Jobs that differ only in their GPUs", "1", id="table")
        yield Pane("Speed-up", "2", id="chart")

    def on_mount(self) -> None:
        """Start polling the jobs."""
        self.focus_now(self.query_one("#table"))
        self.set_interval(POLL_S, self.poll)

    def head_text(self, view: View) -> Line:
        """Name the recipe."""
        return (Span(clean((self.like.recipe_id or self.like.name) if self.like else ""), "value"),)

    def draw(self, view: View) -> None:
        """Draw the table and the chart."""
        table, chart = self.query_one("#table", Pane), self.query_one("#chart", Pane)
        width = max(20, table.inner_size.width)
        if self.like is None:
            lines = wrapped("No job yet. On the launch screen, F6 runs the chosen recipe at 1, 2, 4 GPUs.", width, "dim")
            table.set_content(lines)
            chart.set_content(())
            return
        ascii_only = view.settings.ascii
        found = comparison.reached_by(self.jobs, self.like, view.snapshot, view.history)
        lines = comparison.table(found, view.snapshot, width, ascii_only)
        if len(found) < 2:
            lines = (
                *lines,
                BLANK,
                *wrapped("Only one number of GPUs so far: F6 on the launch screen runs the others.", width, "dim"),
            )
        table.header_lines = 1
        table.set_content(lines)
        chart.set_content(comparison.chart(found, max(20, chart.inner_size.width), ascii_only))

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
    @letting_go
    def poll(self) -> None:
        """Poll the jobs."""
        self.post_message(self.Polled(store.list_jobs()))

    def on_compare_screen_polled(self, event: Polled) -> None:
        """Draw the polled jobs."""
        self.jobs = event.found
        self.settle()
