"""The screen of an untracked run: what its processes and GPUs show of each rank over time, and how to track it."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gputop.snapshot import ProcessRun, Run
from gputop.tui.drawing.doctor.pane import doctor_title
from gputop.tui.drawing.gpus.over_time import time_axis
from gputop.tui.drawing.line import Line, Span, fit
from gputop.tui.drawing.untracked.head import finding_lines, findings_of, head_lines, name_line
from gputop.tui.drawing.untracked.over_time import LABEL_CELLS, SUBJECTS, Axis, edges_of, fits, past_lines, stretch_of
from gputop.tui.drawing.untracked.seen import SeenRank, ranks_now, with_gone
from gputop.tui.screens.base import KeyHint, SubScreen
from gputop.tui.state import copying
from gputop.tui.state.copying import Copy
from gputop.tui.state.untracked import tracked_as
from gputop.tui.state.view import View
from gputop.tui.widgets.lines import LinesWidget
from gputop.tui.widgets.requests import RunOpened
from gputop.tui.widgets.ruled import RuledPane

FINDING_LINES = 8
"""Maximum lines of a finding."""
FINDINGS_SHARE = 3
"""The findings take at most a third of the rows: one part in this many."""


class UntrackedScreen(SubScreen):
    """Shows one run that gputop does not track; once its processes have ended, its last values."""

    NAME = "untracked run"
    DEFAULT_CSS = """
    UntrackedScreen #past { height: 1fr; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "its curve, once gputop tracks it", show=False),
        Binding("h", "subject", "what the heat rows of the ranks show", show=False),
        Binding("n", "run(1)", "next untracked run", show=False),
        Binding("N", "run(-1)", "previous untracked run", show=False),
    ]
    HINTS = (
        KeyHint("Up/Down", "scroll"),
        KeyHint("h", "heat rows", "screen.subject", 2),
        KeyHint("n", "next run", "screen.run(1)", 3),
        KeyHint("w", "where", "app.where", 1),
        KeyHint("d", "doctor", "app.doctor", 3),
        KeyHint("k", "stop", "app.stop_chosen", 2),
        KeyHint("y", "copy", "app.copy", 4),
    )

    def __init__(self, run: ProcessRun, view: View | None = None) -> None:
        super().__init__(view)
        self.run_shown = run
        self.gone_at: float | None = None
        """When the run was found to have ended, in seconds since the epoch."""
        self.subject = 0
        """Index in ``SUBJECTS`` of the subject of which every rank has a row, if not all rows fit."""
        self._seen: tuple[SeenRank, ...] = ()
        self._tracked: Run | None = None
        if view is not None:
            self._see(view)

    def compose_body(self) -> ComposeResult:
        """Yield the head, the rows and the findings."""
        yield LinesWidget(id="summary")
        yield RuledPane("Over time", id="past")
        yield RuledPane("Doctor", id="found")

    @property
    def chosen_process_run(self) -> ProcessRun | None:
        """The run shown, while it is alive."""
        return self.run_shown if self.gone_at is None else None

    def copyable(self) -> Copy | None:
        """Return the PIDs of its ranks."""
        return copying.of_process_run(self.run_shown)

    def head_text(self, view: View) -> Line:
        """Show the run's name and state."""
        return name_line(self.run_shown, self.gone_at is not None, self._tracked is not None)

    def take(self, view: View) -> None:
        """Take the newest view, and see which ranks are there."""
        super().take(view)
        self._see(view)

    def _see(self, view: View) -> None:
        time = view.snapshot.time
        found = next((run for run in view.snapshot.process_runs if run.key == self.run_shown.key), None)
        self.run_shown = found or self.run_shown
        self.gone_at = None if found is not None else self.gone_at or time
        self._tracked = None if found is not None else tracked_as(self.run_shown, view.snapshot)
        self._seen = with_gone(self._seen, ranks_now(found, view.snapshot) if found is not None else (), time)

    def set_heights(self) -> None:
        """Give the head and the findings the lines that they need."""
        super().set_heights()
        if self.view is None:
            return
        columns, rows = self.size
        summary, found = self.query_one("#summary"), self.query_one("#found")
        summary.styles.height = min(max(1, rows // 2), len(self._summary(self.view, columns - 2)))
        lines = self._found(self.view, columns - 2)
        found.display = bool(lines)
        found.styles.height = min(1 + len(lines), max(2, rows // FINDINGS_SHARE))

    def _summary(self, view: View, columns: int) -> list[Line]:
        return head_lines(self.run_shown, view, self.gone_at is not None, max(20, columns), self._tracked is not None)

    def _found(self, view: View, columns: int) -> list[Line]:
        findings = findings_of(self.run_shown, view)
        return finding_lines(findings, max(20, columns), view.settings.ascii, FINDING_LINES)

    def draw(self, view: View) -> None:
        """Draw the run."""
        columns = self.size.width - 2
        self.query_one("#summary", LinesWidget).set_lines([(Span(" "), *part) for part in self._summary(view, columns)])
        past = self.query_one("#past", RuledPane)
        past.set_content(self._past(view, *past.inner_size))
        found = self.query_one("#found", RuledPane)
        if found.display:
            lines = self._found(view, columns)
            found.set_content(lines, title=doctor_title(findings_of(self.run_shown, view)))

    def _past(self, view: View, columns: int, rows: int) -> list[Line]:
        """Return the time axis and the rows below it; the axis stays while the rows scroll."""
        count = columns - LABEL_CELLS
        if count < 1:
            return []
        stretch = stretch_of(view, self.run_shown.started_at, self.gone_at, count)
        axis = Axis(edges_of(stretch, count), ascii=view.settings.ascii)
        lines = past_lines(self._seen, view, axis, SUBJECTS[self.subject], room=rows - 1)
        self.query_one("#past", RuledPane).header_lines = 1
        below = (Span(" " * LABEL_CELLS), *time_axis(stretch, count))
        if self.gone_at is not None:
            below = (Span("up to its end" if self._tracked is None else "until it was tracked", "dim"),)
        return [fit(below, columns), *lines]

    def action_open(self) -> None:
        """Show the run's curve, if gputop tracks it by now."""
        if self._tracked is None:
            self.notify("gputop does not track it: there is no curve.", timeout=4)
            return
        self.post_message(RunOpened(self._tracked.run_id))

    def action_subject(self) -> None:
        """Show the rows of all ranks for something else, if not all rows fit."""
        room = self.query_one("#past", RuledPane).inner_size.height - 1
        if len(self._seen) < 2 or fits(len(self._seen), room):
            self.notify("All heat rows are visible.", timeout=4)
            return
        self.subject = (self.subject + 1) % len(SUBJECTS)
        self.settle()

    def action_run(self, by: int) -> None:
        """Show the next or previous untracked run."""
        runs = self.view.snapshot.process_runs if self.view is not None else ()
        others = [run.key for run in runs if run.key != self.run_shown.key]
        if self.view is None or not others:
            self.notify("No other untracked run is alive.", timeout=4)
            return
        place = next((place for place, run in enumerate(runs) if run.key == self.run_shown.key), -1 if by > 0 else 0)
        self.run_shown, self.gone_at, self._seen = runs[(place + by) % len(runs)], None, ()
        self._see(self.view)
        self.settle()
