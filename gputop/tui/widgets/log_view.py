"""A pane with a job's log: follows its end, stays where the user scrolled to, holds a bounded number of lines."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.tui.drawing.line import Line, Span, clean
from gputop.tui.drawing.prose import wrapped
from gputop.tui.widgets.pane import Pane

LINES_KEPT = 2000
"""Older lines are dropped; ``JobLog`` reads them from the file again."""
_BAD_WORDS = ("error", "traceback", "exception", "out of memory", "killed", "fatal")


class LogView(Pane):
    """Shows lines as they arrive. Long lines are wrapped, because the most useful words of an error are often its last."""

    def __init__(self, title: str = "Log", digit: str = "", *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(title, digit, id=id)
        self.texts: list[str] = []
        self.pending = ""
        """The unfinished last line, such as a running progress bar."""
        self.at_end = True
        self._is_read = False
        """Whether anything is known of the log: until then, it may have output."""
        self._columns = 0
        self._wrapped: list[Line] = []

    def clear(self) -> None:
        """Start another log."""
        self.texts, self.pending, self.at_end = [], "", True
        self._wrapped, self._is_read = [], False
        self._show()

    def add(self, texts: Sequence[str], pending: str = "") -> None:
        """Append lines, and show the unfinished one."""
        is_first, self._is_read = not self._is_read, True
        if not texts and pending == self.pending and not is_first:
            return
        self.texts += texts
        self.pending = pending
        dropped = len(self.texts) - LINES_KEPT
        if dropped > 0:
            del self.texts[:dropped]
            self._wrap_all()
        else:
            for text in texts:
                self._wrapped += self._lines_of(text)
        self._show()

    def resized(self) -> None:
        """Wrap for the new width."""
        if self.inner_size.width != self._columns:
            self._wrap_all()
        self.lines = tuple(self._all_lines()) or self.empty_lines()
        if self.at_end:
            self.first = len(self.lines)

    def scroll_lines(self, by: int) -> None:
        """Scroll; at the end, follow the log again."""
        super().scroll_lines(by)
        self.at_end = self.first >= len(self.lines) - self.inner_size.height
        self.footer = self._footer()
        self.repaint()

    def empty_lines(self) -> tuple[Line, ...]:
        """Return the placeholder of an empty log."""
        return ((Span("No output yet." if self._is_read else "Reading the log …", "dim"),),)

    def _show(self) -> None:
        if self.at_end:
            self.first = len(self._wrapped) + 1
        self.set_content(self._all_lines(), title=self.title, subtitle=self.subtitle, footer=self._footer())

    def _footer(self) -> Line:
        return () if self.at_end else ((Span("End", "key")), Span(" follows the log again", "dim"))

    def _all_lines(self) -> list[Line]:
        return [*self._wrapped, *(self._lines_of(self.pending) if self.pending else ())]

    def _wrap_all(self) -> None:
        self._columns = self.inner_size.width
        self._wrapped = [line for text in self.texts for line in self._lines_of(text)]

    def _lines_of(self, text: str) -> tuple[Line, ...]:
        shown = clean(text.expandtabs(8))
        style = "bad" if any(word in shown.lower() for word in _BAD_WORDS) else "text"
        columns = self._columns or 80
        if len(shown) <= columns:
            return ((Span(shown, style),),)
        return wrapped(shown, columns, style, rest="  ")
