"""The GPUs pane: the arrow keys choose a GPU, and Enter opens its own screen."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from gputop.snapshot import Device
from gputop.tui.drawing.gpus.pane import Place, draw_gpus, places
from gputop.tui.drawing.gpus.past import is_of_past
from gputop.tui.drawing.line import Drawing, Line, Span, cut, fit
from gputop.tui.state.view import View
from gputop.tui.widgets.lines import LinesWidget
from gputop.tui.widgets.requests import GpuOpened
from gputop.tui.widgets.ruled import ViewPane, named_keys


class GpusPane(ViewPane):
    """Every device, and how they share the work; Enter or a click opens one."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "open", "details of the chosen GPU", show=False)]

    def __init__(self) -> None:
        super().__init__("GPUs", "1", id="gpus")
        self._places: tuple[Place, ...] = ()
        self._chosen: str | None = None

    def drawing(self, view: View, columns: int, rows: int) -> Drawing:
        """Return the devices' rows; while the pane has the focus, the chosen one is marked."""
        drawing = draw_gpus(view, columns, rows)
        self._places = places(view, columns, rows)
        if not self.has_focus or len(self._places) < 2:
            return drawing
        held = self._places[self._chosen_place()]
        lines = list(drawing.lines)
        for index in range(held.line, min(held.line + 1, len(lines))):
            lines[index] = _marked(lines[index], held.start, held.end, columns)
        return drawing._replace(lines=tuple(lines))

    @property
    def chosen_device(self) -> Device | None:
        """The chosen device; before any choice the first one that the doctor names, else the first."""
        return self._places[self._chosen_place()].device if self._places else None

    def own_keys(self) -> Line:
        """Name what Enter, and keys of the dashboard, do with devices."""
        return named_keys(("Enter", "details"), ("c", "density"), ("y", "copy UUID"))

    def _chosen_place(self) -> int:
        involved = self.view.involved_devices if self.view is not None and self._chosen is None else frozenset()
        wanted = {self._chosen} if self._chosen is not None else involved
        return next((place for place, held in enumerate(self._places) if held.device.uuid in wanted), 0)

    def _move(self, by: int) -> None:
        """Choose another device; with nothing to choose, scroll."""
        if not self._places:
            self.scroll_lines(by)
            return
        place = min(len(self._places) - 1, max(0, self._chosen_place() + by))
        self._chosen = self._places[place].device.uuid
        self._reveal(self._places[place].line)
        self.show_again()

    def watch_has_focus(self, has_focus: bool) -> None:
        """Mark the chosen device only while the pane has the focus."""
        super().watch_has_focus(has_focus)
        self.show_again()

    def on_lines_widget_line_clicked(self, event: LinesWidget.LineClicked) -> None:
        """Open the device that was clicked."""
        event.stop()
        for held in self._places:
            if held.line <= event.index < held.line + held.lines and held.start <= event.column < held.end:
                self._chosen = held.device.uuid
                self.action_open()

    def action_open(self) -> None:
        """Open the chosen device."""
        device = self.chosen_device
        if device is not None:
            self.post_message(GpuOpened(device.uuid))


def _under_cursor(span: Span) -> Line:
    """Return a span under the cursor; one of the past only where it is blank, because nothing is known."""
    if not is_of_past(span):
        return (Span(span.text, f"{span.style} cursor"),)
    known = span.text.lstrip(" ")
    blank = span.text[: len(span.text) - len(known)]
    return (Span(blank, f"{span.style} cursor"), Span(known, span.style)) if blank else (span,)


def _marked(line: Line, start: int, end: int, width: int) -> Line:
    """Return a line with the cells [start, end) under the cursor, except the past.

    Where a theme marks by reversing, a high column would become a low one; and its many colors take many bytes.
    """
    row = fit(line, width)
    held = tuple(part for span in cut(row, start, end) for part in _under_cursor(span))
    return (*cut(row, 0, start), *held, *cut(row, end, width))
