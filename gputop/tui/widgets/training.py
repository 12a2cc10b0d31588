"""The pane with the chosen run."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from gputop.tui.drawing.line import Drawing
from gputop.tui.drawing.loss import LossChart
from gputop.tui.drawing.training import draw_training
from gputop.tui.drawing.untracked.pane import draw_its_curve, draw_process_runs, untracked_run
from gputop.tui.state.view import View
from gputop.tui.widgets.requests import RunOpened
from gputop.tui.widgets.ruled import ViewPane


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
        run = untracked_run(view)
        if run is not None:
            return draw_its_curve(view, run, self._chart, columns, rows)
        return draw_training(view, self._chart, columns, rows)

    def action_open(self) -> None:
        """Open the run screen."""
        if self.view is not None and self.view.run is not None:
            self.post_message(RunOpened(self.view.run.run_id))
