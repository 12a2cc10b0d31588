"""The pane with the doctor's findings."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from gputop.tui.drawing.doctor.pane import draw_doctor
from gputop.tui.drawing.line import Drawing
from gputop.tui.state.view import View
from gputop.tui.widgets.ruled import ViewPane


class DoctorPane(ViewPane):
    """What is wrong, why, and the fix; Enter opens the full report."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "app.doctor", "the full report", show=False)]

    def __init__(self) -> None:
        super().__init__("Doctor", "4", id="doctor")

    def drawing(self, view: View, columns: int, rows: int) -> Drawing:
        """Return the findings."""
        return draw_doctor(view, columns, rows)
