"""The pane with the doctor's findings."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from gputop.tui.drawing.doctor.pane import draw_doctor
from gputop.tui.drawing.line import Drawing, Line
from gputop.tui.state.view import View
from gputop.tui.widgets.lines import LinesWidget
from gputop.tui.widgets.ruled import ViewPane, named_keys


class DoctorPane(ViewPane):
    """What is wrong, why, and the fix; Enter opens the full report."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "app.doctor", "the full report", show=False)]

    def __init__(self) -> None:
        super().__init__("Doctor", "4", id="doctor")

    def own_keys(self) -> Line:
        """Name what copies the fix, if there is one."""
        findings = self.view.findings if self.view is not None else ()
        return named_keys(("y", "copy the fix")) if findings and findings[0].fix else ()

    def drawing(self, view: View, columns: int, rows: int) -> Drawing:
        """Return the findings."""
        return draw_doctor(view, columns, rows)

    def on_lines_widget_line_clicked(self, event: LinesWidget.LineClicked) -> None:
        """Open the full report."""
        event.stop()
        self.app.call_later(self.run_action, "app.doctor")
