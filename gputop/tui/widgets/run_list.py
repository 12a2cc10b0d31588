"""The list of runs: a cursor that follows the run on the screen, and a filter typed above it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from textual.message import Message

from gputop.errors import UsageError
from gputop.filters.runs import RunFilter, parse
from gputop.snapshot import Run
from gputop.tui.drawing.line import Line, Span, clean, line
from gputop.tui.drawing.prose import wrapped
from gputop.tui.drawing.runs.listing import kept, run_lines
from gputop.tui.widgets.lines import LinesWidget
from gputop.tui.widgets.ruled import RuledPane
from gputop.tui.widgets.typed_filter import TypedFilter


class RunList(TypedFilter, RuledPane):
    """Shows runs; moving the cursor chooses the run under it."""

    class Chosen(Message):
        """The user chose a run; ``opened`` if by a double click."""

        def __init__(self, run_id: str, opened: bool = False) -> None:
            super().__init__()
            self.run_id = run_id
            self.opened = opened

    def __init__(self) -> None:
        super().__init__("Runs", id="runs")
        self.runs: Sequence[Run] = ()
        self.shown = ""
        self.marked: Mapping[str, str] = {}
        self.now = 0.0
        self.complete = True
        self._kept: tuple[Run, ...] = ()
        self._text = ""
        self._filter = RunFilter()
        self._problem: UsageError | None = None

    def set_runs(self, runs: Sequence[Run], shown: str, marked: Mapping[str, str], now: float, *, complete: bool) -> None:
        """Show these runs; ``complete`` is False while the stored ones are still being read."""
        self.runs, self.shown, self.marked, self.now, self.complete = runs, shown, marked, now, complete
        self.lay_out()

    def lay_out(self) -> None:
        """Draw the list for the current size."""
        columns = max(8, self.inner_size.width)
        above = self._filter_lines(columns)
        self._kept = kept(self.runs, self._filter, self.now)
        lines = run_lines(self._kept, columns, self.now, shown=self.shown, marked=self.marked, ascii_only=self.ascii)
        self.header_lines = len(above) + 1
        below = self._below(columns)
        place = next((place for place, run in enumerate(self._kept) if run.run_id == self.shown), None)
        cursor = None if place is None else self.header_lines + place
        self.set_content((*above, *lines, *below), subtitle=self._counted(), cursor=cursor)

    def _filter_lines(self, columns: int) -> tuple[Line, ...]:
        if not self.typing and not self._text:
            return ()
        shown: Line = (Span("/ ", "key"), Span(clean(self._text) + ("_" if self.typing else ""), "value"))
        problem = self._problem
        if problem is None:
            hint = "Enter keeps, Esc clears" if self.typing else ""
            return (shown, *(wrapped(hint, columns, "dim") if hint and not self._text else ()))
        return (
            shown,
            *wrapped(problem.message, columns, "warn" if self.typing else "bad"),
            *wrapped(problem.hint or "", columns, "dim"),
        )

    def _below(self, columns: int) -> tuple[Line, ...]:
        if self._kept or not self.complete:
            return ()
        if self.runs:
            return wrapped("No run matches this filter.", columns, "dim")
        return wrapped("No runs yet. gputop run -- CMD tracks one; l launches a demo.", columns, "dim")

    def _counted(self) -> Line:
        if not self.complete:
            return line(("reading …", "dim"))
        of = f"{len(self._kept)} of " if self._text else ""
        runs = f"{of}{len(self.runs)} run{'s' * (len(self.runs) != 1)}"
        marked = f", {len(self.marked)} marked" if self.marked else ""
        return line((f"{runs}{marked}", "dim"), ("  / ", "key"), ("filter", "dim"))

    # The filter

    def filter_text(self) -> str:
        """Return the filter as typed so far."""
        return self._text

    def set_filter(self, text: str) -> None:
        """Show the runs that a filter keeps; while it is invalid, those of the last valid one, and what is wrong."""
        self._text = text
        try:
            self._filter, self._problem = parse(text), None
        except UsageError as problem:
            self._problem = problem
        self.lay_out()

    def stop_typing(self, keep: bool = True) -> None:
        """Stop typing; a filter that leaves out the run shown chooses the first one that it keeps."""
        super().stop_typing(keep)
        if self._kept and all(run.run_id != self.shown for run in self._kept):
            self.post_message(self.Chosen(self._kept[0].run_id))

    # The cursor

    def choose_next(self, by: int) -> None:
        """Choose the next or previous run of the list."""
        if self._kept:
            place = next((place for place, run in enumerate(self._kept) if run.run_id == self.shown), -1 if by > 0 else 0)
            self.post_message(self.Chosen(self._kept[(place + by) % len(self._kept)].run_id))

    def likely(self) -> tuple[str, ...]:
        """Return the ids of the runs that the next key may choose: those beside the run shown, or the first one kept."""
        place = next((place for place, run in enumerate(self._kept) if run.run_id == self.shown), None)
        beside = (
            self._kept[:1] if place is None else (*self._kept[place + 1 : place + 2], *self._kept[max(0, place - 1) : place])
        )
        return tuple(run.run_id for run in beside)

    def _move(self, by: int) -> None:
        if self.cursor is None and self._kept:
            self.post_message(self.Chosen(self._kept[0].run_id))
            return
        super()._move(by)

    def on_lines_widget_cursor_moved(self, event: LinesWidget.CursorMoved) -> None:
        """Choose the run under the cursor."""
        event.stop()
        self._choose(event.index)

    def on_lines_widget_line_clicked(self, event: LinesWidget.LineClicked) -> None:
        """Choose the clicked run; a double click opens it."""
        event.stop()
        self._choose(event.index, event.chain == 2)

    def _choose(self, index: int, opened: bool = False) -> None:
        place = index - self.header_lines
        if 0 <= place < len(self._kept):
            self.post_message(self.Chosen(self._kept[place].run_id, opened))
