"""The pane with the chosen run."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from gputop.tui.drawing.line import Drawing, Line
from gputop.tui.drawing.loss import LossChart
from gputop.tui.drawing.training import draw_training
from gputop.tui.drawing.untracked.ended import draw_ended_runs
from gputop.tui.drawing.untracked.pane import draw_its_curve, draw_process_runs, run_at, untracked_run
from gputop.tui.state.view import View
from gputop.tui.widgets.lines import LinesWidget
from gputop.tui.widgets.requests import ProcessRunOpened, RunOpened
from gputop.tui.widgets.ruled import ViewPane, named_keys


class TrainingPane(ViewPane):
    """Numbers and live loss of the chosen run; Enter opens the run screen."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "open", "open the run's screen", show=False)]

    def __init__(self) -> None:
        super().__init__("Training", "2", id="training")
        self._chart = LossChart()

    def drawing(self, view: View, columns: int, rows: int) -> Drawing:
        """Return the numbers and the chart; what processes show, if only untracked runs are alive."""
        if view.run is None and view.snapshot.process_runs:
            return draw_process_runs(view, columns, rows)
        if view.run is None and view.snapshot.ended_runs:
            return draw_ended_runs(view, columns, rows)
        run = untracked_run(view)
        if run is not None:
            return draw_its_curve(view, run, self._chart, columns, rows)
        return draw_training(view, self._chart, columns, rows)

    def own_keys(self) -> Line:
        """Name what Enter, and keys of the dashboard, do with the run."""
        return named_keys(("Enter", "details"), ("r", "ranks"), ("Y", "log"), ("[ ]", "smooth"))

    def action_open(self) -> None:
        """Open the run screen; while only untracked runs are alive, the largest one's."""
        if self.view is None:
            return
        if self.view.run is not None:
            self.post_message(RunOpened(self.view.run.run_id))
        elif self.view.snapshot.process_runs:
            self.post_message(ProcessRunOpened(self.view.snapshot.process_runs[0].key))

    def on_lines_widget_line_clicked(self, event: LinesWidget.LineClicked) -> None:
        """Open the run that was clicked."""
        event.stop()
        if self.view is not None and self.view.run is not None:
            self.action_open()
        elif self.view is not None and self.view.snapshot.process_runs:
            run = run_at(self.view, *self.inner_size, event.index)
            if run is not None:
                self.post_message(ProcessRunOpened(run.key))
