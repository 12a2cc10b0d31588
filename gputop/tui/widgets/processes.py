"""The process pane: a cursor, a sort order, and a filter typed into the pane's bottom edge."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import ClassVar

from textual.binding import Binding, BindingType

from gputop.errors import UsageError
from gputop.filters.processes import parse
from gputop.process import ProcessKey
from gputop.snapshot import Process, Snapshot
from gputop.tui.drawing.late_lines import LateLines
from gputop.tui.drawing.line import Drawing, Line, clean, line
from gputop.tui.drawing.processes.pane import columns_for, draw_processes, scrolls_most
from gputop.tui.drawing.processes.rows import SORTABLE, Order, Row, process_rows
from gputop.tui.drawing.table import column_at
from gputop.tui.state.view import View
from gputop.tui.widgets.lines import LinesWidget
from gputop.tui.widgets.requests import GpuOpened, LayoutChanged, ProcessChosen, RunOpened
from gputop.tui.widgets.ruled import ViewPane
from gputop.tui.widgets.typed_filter import TypedFilter


class ProcessesPane(TypedFilter, ViewPane):
    """Every process that uses a device or belongs to a run. The cursor stays on its process when the order changes."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "details of the chosen process or run", show=False),
        Binding("right", "scroll_commands(1)", "more of the commands: whole, then further right", show=False),
        Binding("left", "scroll_commands(-1)", "back to the beginning of the commands", show=False),
    ]

    def __init__(self) -> None:
        super().__init__("Processes", "3", id="processes")
        self.order = Order()
        self.scrolled = 0
        """How many steps to the right the commands are scrolled; the first shows them whole."""
        self._tagged: frozenset[ProcessKey] = frozenset()
        self._typed = ""
        self._problem: UsageError | None = None
        """Why the filter as typed is invalid; the last valid one then applies."""
        self._rows_shown: tuple[Row, ...] = ()
        self._last_rows: tuple[tuple[Snapshot, Order], tuple[Row, ...]] | None = None
        self._chosen: tuple[str, str] | None = None
        self._held = False
        """True once the user chose a row: the cursor then follows that row; before, it stays on the first row."""

    def drawing(self, view: View, columns: int, rows: int) -> Drawing:
        """Return the table."""
        self._rows_shown = self._rows_in(view)
        if self._tagged:
            self._tagged &= {process.key for process in view.snapshot.processes}
        if self.scrolled:
            self.scrolled = min(self.scrolled, scrolls_most(self._rows_shown, columns))
        drawing = draw_processes(view, self._rows_shown, self.order, columns, self._tagged, self.scrolled)
        above = self._problem_lines()
        self.header_lines = len(above) + (1 if self._rows_shown else 0)
        if self.typing or above:
            lines = drawing.lines.below(above) if isinstance(drawing.lines, LateLines) else (*above, *drawing.lines)
            drawing = drawing._replace(lines=lines, footer=self.input_line())
        return drawing

    def _problem_lines(self) -> tuple[Line, ...]:
        """Return what is wrong with the filter, in a line of its own: little of it would fit into the rule."""
        if self._problem is None:
            return ()
        return (line((clean(self._problem.message), "warn" if self.typing else "bad")),)

    def lines_wanted(self, view: View, columns: int) -> int:
        """Return how many lines the table fills, without the notes below it."""
        rows = self._rows_in(view)
        lines = 1 + len(rows) if rows else len(draw_processes(view, rows, self.order, columns).lines)
        return lines + len(self._problem_lines())

    def _rows_in(self, view: View) -> tuple[Row, ...]:
        """Return the rows in their order; the layout and the drawing of one snapshot share them."""
        key = view.snapshot, self.order
        if self._last_rows is None or self._last_rows[0][0] is not key[0] or self._last_rows[0][1] != key[1]:
            self._last_rows = key, process_rows(view.snapshot, self.order)
        return self._last_rows[1]

    def cursor_line(self) -> int | None:
        """Return the line of the chosen row, or of the row that replaced it; the first row before any choice."""
        if not self._rows_shown:
            return None
        if not self._held:
            self._chosen = self._rows_shown[0].key
            return self.header_lines
        place = next((index for index, row in enumerate(self._rows_shown) if row.key == self._chosen), None)
        if place is None:
            place = min(max(0, (self.cursor or 0) - self.header_lines), len(self._rows_shown) - 1)
            self._chosen = self._rows_shown[place].key
        return place + self.header_lines

    @property
    def chosen_row(self) -> Row | None:
        """The row under the cursor."""
        return next((row for row in self._rows_shown if row.key == self._chosen), None)

    @property
    def chosen_process(self) -> Process | None:
        """The process under the cursor; None if the row is not a process."""
        row = self.chosen_row
        return row.process if row else None

    @property
    def tagged_processes(self) -> tuple[Process, ...]:
        """The tagged processes that still exist, including those that the filter hides."""
        found = self.view.snapshot.processes if self.view is not None else ()
        return tuple(process for process in found if process.key in self._tagged)

    def tag(self) -> None:
        """Tag or untag the process under the cursor, and go to the next row; on a run's row, all its processes."""
        row = self.chosen_row
        if row is None:
            return
        found = [held.process for held in self._rows_shown if held is row or (row.kind == "run" and held.run is row.run)]
        tags = frozenset(process.key for process in found if process is not None)
        if not tags:
            self.screen.notify("Only processes can be tagged, and this row is not one.")
        self._tagged = self._tagged - tags if tags <= self._tagged else self._tagged | tags
        # At once, not by a message: the second of two quick presses is for the next row.
        below = min(self._rows_shown.index(row) + 1, len(self._rows_shown) - 1)
        self._chosen, self._held = self._rows_shown[below].key, True
        self.show_again()

    def clear(self) -> None:
        """Clear the filter; without one, the tags."""
        if not self.filter_text() and not self.typing:
            self._tagged = frozenset()
        self.stop_typing(keep=False)

    def on_lines_widget_cursor_moved(self, event: LinesWidget.CursorMoved) -> None:
        """Remember the row under the cursor."""
        event.stop()
        self._choose(event.index)

    def on_lines_widget_line_clicked(self, event: LinesWidget.LineClicked) -> None:
        """Sort by a clicked heading; choose a clicked row; open it on a double click."""
        event.stop()
        if not self._rows_shown:
            return
        if event.index == self.header_lines - 1:
            key = column_at(columns_for(self._rows_shown, self.inner_size.width), event.column)
            if key in SORTABLE:
                self.sort_by(key)
            return
        self._choose(event.index)
        self.show_again()
        if event.chain == 2:
            self.action_open()

    def _choose(self, index: int) -> None:
        place = index - self.header_lines
        if 0 <= place < len(self._rows_shown):
            self._chosen = self._rows_shown[place].key
            self._held = True

    def sort_by(self, key: str) -> None:
        """Sort by a column; sorting by it again reverses the order."""
        self.set_order(replace(self.order, sort=key, invert=not self.order.invert if key == self.order.sort else False))

    def set_order(self, order: Order) -> None:
        """Show the rows in another order, and have it remembered."""
        self.order = order
        self.post_message(LayoutChanged(sort=order.sort, invert=order.invert, tree=order.tree))
        self.show_again()

    def action_scroll_commands(self, by: int) -> None:
        """Show whole commands, and scroll them to the end of the longest one."""
        most = scrolls_most(self._rows_shown, self.inner_size.width)
        self.scrolled = min(most, max(0, self.scrolled + by))
        self.show_again()

    def action_open(self) -> None:
        """Open the process, run or GPU under the cursor."""
        row = self.chosen_row
        if row is None:
            return
        if row.process is not None:
            self.post_message(ProcessChosen(row.process.pid))
        elif row.run is not None:
            self.post_message(RunOpened(row.run.run_id))
        elif row.device is not None:
            self.post_message(GpuOpened(row.device.uuid))
        else:
            self.screen.notify("The launcher of the processes below uses no GPU: nothing more is known about it.")

    # The filter

    def filter_text(self) -> str:
        """Return the filter as typed."""
        return self._typed

    def set_filter(self, text: str) -> None:
        """Show the processes that a filter keeps; while it is invalid, those of the last valid one, and what is wrong."""
        self._typed, self._problem = text, None
        try:
            self.order = replace(self.order, filter=parse(text, os.getuid()))
        except UsageError as problem:
            self._problem = problem
        self.show_again()
