"""The log of a job that runs on other machines: the followed lines and a search in them. It has no file on this machine."""

from __future__ import annotations

from gputop.jobs.output import logs
from gputop.tui.drawing.line import Line, Span
from gputop.tui.screens.launch.log import JobLog, pointed_at
from gputop.tui.widgets.log_view import LINES_KEPT


class HostsJobLog(JobLog):
    """Searches and pages only in the lines that it holds: hosts send the end of a log, and what is added to it."""

    _hit: int | None = None
    """Index of the line that was found."""

    def sources(self) -> tuple[logs.Source, ...]:
        """Return no file: a host chooses its job ids, and a job of this machine may have the same one."""
        return ()

    def action_next_rank(self) -> None:
        """Hosts send all output of a job together."""
        self.screen.notify("Over hosts, a log is shown whole.", timeout=4)

    def clear(self) -> None:
        """Start another log."""
        self._hit = None
        super().clear()

    def add(self, texts: list[str] | tuple[str, ...], pending: str = "") -> None:  # type: ignore[override]
        """Add new lines, and keep the place of the line that was found."""
        if self._hit is not None:
            gone = max(0, len(self.texts) + len(texts) - LINES_KEPT)
            self._hit = self._hit - gone if self._hit >= gone else None
        super().add(texts, pending)

    def action_beginning(self) -> None:
        """Show the first line that is held."""
        self._hit = None
        self.at_end, self.first = False, 0
        self._show()

    def action_follow(self) -> None:
        """Follow the log's end again."""
        self._hit = None
        super().action_follow()

    @property
    def _is_away(self) -> bool:
        return self._hit is not None

    def _start_search(self, *, backwards: bool, restart: bool) -> None:
        wanted = self._term.casefold()
        begin = None if restart else self._hit
        if backwards:
            places = range((len(self.texts) if begin is None else begin) - 1, -1, -1)
        else:
            places = range(0 if begin is None else begin + 1, len(self.texts))
        found = next((place for place in places if wanted in self.texts[place].casefold()), None)
        if found is None:
            where = "" if begin is None else f" {'above' if backwards else 'below'}"
            self._note = f"{self._term!r} is not found{where}"
            self._redraw()
            return
        self._hit, self._note, self.at_end = found, f"{self._term!r}", False
        self.first = max(0, len(self.explained) + self._lines_before(found) - self.inner_size.height // 3)
        self._show()

    def _lines_before(self, place: int) -> int:
        return len(self._wrapped) - sum(len(self._lines_of(text)) for text in self.texts[place:])

    def _all_lines(self) -> list[Line]:
        lines = super()._all_lines()
        if self._hit is not None:
            begin = len(self.explained) + self._lines_before(self._hit)
            end = begin + len(self._lines_of(self.texts[self._hit]))
            lines[begin:end] = pointed_at(lines[begin:end])
        return lines

    def _rank_spans(self) -> list[Span]:
        return []
