"""Where every rank of a run is, asked repeatedly while the screen is open.

The sampler asks, on the machine where the ranks run: the screen posts ``Asked``, and the app hands it the answer in
``take_answer``.
"""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gputop.questions import Answer
from gputop.snapshot import ProcessRun, Run
from gputop.tui.drawing.line import Line, Span, clean
from gputop.tui.drawing.prose import wrapped
from gputop.tui.drawing.whereabouts import whereabouts_lines
from gputop.tui.screens.base import KeyHint, SubScreen
from gputop.tui.state import copying
from gputop.tui.state.copying import Copy
from gputop.tui.state.view import View
from gputop.tui.widgets.requests import Asked
from gputop.tui.widgets.ruled import RuledPane
from gputop.whereabouts.records import Whereabouts, WhereQuestion

ASK_EVERY_S = 3.0
"""An answer takes up to two seconds; a question sent before the answer to the last one is dropped."""


class WhereScreen(SubScreen):
    """Shows where the ranks of ``run`` are; of one without a journal, such as one before its first step, its processes."""

    NAME = "where"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("w", "back", "back", show=False)]
    HINTS = (KeyHint("Up/Down", "scroll"), KeyHint("k", "stop", "app.stop_chosen", 2), KeyHint("y", "copy", "app.copy", 4))

    def __init__(self, run: Run | ProcessRun, view: View | None = None) -> None:
        super().__init__(view)
        self.run_shown = run
        self.question = _question_about(run)
        self.answer: Whereabouts | None = None

    def compose_body(self) -> ComposeResult:
        """Yield the text."""
        yield RuledPane("Where every rank is", id="where")

    def head_text(self, view: View) -> Line:
        """Show the run's name."""
        return (Span(clean(self.run_shown.name), "value"),)

    def copyable(self) -> Copy | None:
        """Return the run's id; of a run without a journal, the PIDs of its ranks."""
        return copying.of_run(self.chosen_run) or copying.of_process_run(self.chosen_process_run)

    @property
    def chosen_run(self) -> Run | None:
        """The run shown, if it has a journal."""
        return self.run_shown if isinstance(self.run_shown, Run) else None

    @property
    def chosen_process_run(self) -> ProcessRun | None:
        """The run shown, if it has none."""
        return self.run_shown if isinstance(self.run_shown, ProcessRun) else None

    def take(self, view: View) -> None:
        """Take the newest view, and the run as it is now: its ranks come and go."""
        super().take(view)
        runs: tuple[Run | ProcessRun, ...] = (*view.snapshot.runs, *view.snapshot.process_runs)
        self.run_shown = next((run for run in runs if _question_about(run).run_id == self.question.run_id), self.run_shown)
        self.question = _question_about(self.run_shown)

    def on_mount(self) -> None:
        """Ask, now and at intervals."""
        self.repeat(ASK_EVERY_S, self._ask)

    def _ask(self) -> None:
        if self.is_current and self.view is not None and self.view.feed == "live" and not self.view.paused:
            self.post_message(Asked(self.question))

    def take_answer(self, answer: Answer) -> None:
        """Show the answer."""
        if not isinstance(answer, Whereabouts) or answer.run_id != self.question.run_id:
            return
        self.answer = answer
        self.settle()

    def draw(self, view: View) -> None:
        """Draw the last answer."""
        pane = self.query_one("#where", RuledPane)
        columns = max(20, pane.inner_size.width)
        if view.feed != "live":
            lines = wrapped("This is a recording: its ranks cannot be asked.", columns, "warn")
        elif self.answer is None:
            lines = ((Span("asking the ranks …", "dim"),),)
        else:
            remote, plain = view.remote is not None, view.settings.ascii
            lines = whereabouts_lines(self.answer, columns, self.answer.taken_at, remote=remote, ascii_only=plain)
        pane.set_content(lines)


def _question_about(run: Run | ProcessRun) -> WhereQuestion:
    if isinstance(run, Run):
        return WhereQuestion(run.run_id)
    return WhereQuestion(run.key, tuple(rank.pid for rank in run.ranks))
