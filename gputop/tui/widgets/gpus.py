"""The GPUs pane."""

from __future__ import annotations

from gputop.tui.drawing.gpus.pane import draw_gpus
from gputop.tui.drawing.line import Drawing
from gputop.tui.state.view import View
from gputop.tui.widgets.lines import ViewPane


class GpusPane(ViewPane):
    """Every device, and how they share the work."""

    def __init__(self) -> None:
        super().__init__("GPUs", "1", id="gpus")

    def drawing(self, view: View, columns: int, rows: int) -> Drawing:
        """Return the devices' rows."""
        return draw_gpus(view, columns, rows)
