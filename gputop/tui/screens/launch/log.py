"""The log of the chosen job: all its processes or one rank, followed at the end, searchable, paged back to the start.

The followed log keeps a bounded number of lines. Scrolling further up, or a search, shows a page of the file itself; End
resumes following. A thread reads the files, so a slow disk never blocks the screen.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual import events, work
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.worker import get_current_worker

from gputop.errors import GputopError
from gputop.jobs.output import logs, search
from gputop.jobs.output.follower import size_bytes
from gputop.jobs.output.search import Page
from gputop.tui.drawing.line import Line, Span, clean
from gputop.tui.state.released_worker import releasing_worker
from gputop.tui.widgets.log_view import LogView


def pointed_at(lines: Iterable[Line]) -> list[Line]:
    """Return the lines found by a search."""
    return [tuple(Span(span.text, "accent") for span in line) for line in lines]


class JobLog(LogView):
    """A log view that knows the job's files. The screen feeds it the followed lines of the files chosen here."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "next_rank", "all output, the launcher's, or one rank's", show=False),
        Binding("slash", "search", "search in the log", show=False),
        Binding("n", "again(1)", "next match", show=False),
        Binding("N", "again(-1)", "previous match", show=False),
        Binding("end", "follow", "follow the log's end", show=False),
        Binding("home", "beginning", "the log's beginning", show=False),
    ]

    class RankChosen(Message):
        """The user chose another rank, or the launcher: follow its output."""

    class Found(Message):
        """A page of a file that a thread read, or None and the reason. ``asked`` is the number of the request it answers."""

        def __init__(self, asked: int, page: Page | None, source: logs.Source | None, offset: int, words: str) -> None:
            super().__init__()
            self.asked = asked
            self.page = page
            self.source = source
            self.offset = offset
            self.words = words

    def __init__(self, title: str = "Log", digit: str = "", *, id: str | None = None) -> None:  # noqa: A002 - Textual's name
        super().__init__(title, digit, id=id)
        self.explained: tuple[Line, ...] = ()
        """Why the job failed; stays at the top while the log scrolls."""
        self.job_id: str | None = None
        self.label: str | None = None
        """Of the files that are shown; None: all."""
        self._typing: str | None = None
        self._term = ""
        self._place: tuple[logs.Source, int, Page] | None = None
        """The file, offset and page shown instead of the log's end."""
        self._note = ""
        self._asked = 0
        """Number of the latest request to a thread: answers to earlier requests are ignored."""
        self._searching = False
        """True while a search is running."""

    def follow_job(self, job_id: str) -> None:
        """Show another job's log, from its end."""
        self._cancel_request()
        if job_id != self.job_id:
            self.job_id, self.label, self._place, self._typing, self._note = job_id, None, None, None, ""
        self.clear()

    def explain(self, lines: tuple[Line, ...]) -> None:
        """Show above the log why the job failed; an empty tuple removes the explanation."""
        if lines != self.explained:
            self.explained = lines
            self.header_lines = len(lines)
            if self._place is None:
                self._show()
            else:
                self._lay_out_page()

    def empty_lines(self) -> tuple[Line, ...]:
        """Return the placeholder of an empty log, or of none."""
        return super().empty_lines() if self.job_id is not None else ((Span("No job is chosen.", "dim"),),)

    def _all_lines(self) -> list[Line]:
        return [*self.explained, *super()._all_lines()]

    def add(self, texts: list[str] | tuple[str, ...], pending: str = "") -> None:  # type: ignore[override]
        """Add new lines. While a page of the file is shown, drop them: following the log again rereads its end."""
        if self._place is None:
            super().add(texts, pending)

    # Which files

    def sources(self) -> tuple[logs.Source, ...]:
        """Return the files of the chosen rank, or all files."""
        try:
            found = logs.sources(self.job_id) if self.job_id else ()
        except GputopError:
            return ()
        return tuple(source for source in found if self.label in (None, source.label))

    def action_next_rank(self) -> None:
        """Show the next source of output: all, the launcher, rank 0, rank 1 …"""
        try:
            found = logs.sources(self.job_id) if self.job_id else ()
        except GputopError:
            return
        labels = list(dict.fromkeys(source.label for source in found))
        choices: list[str | None] = [None, *(labels if len(labels) > 1 else [])]
        at = choices.index(self.label) if self.label in choices else 0
        self.label = choices[(at + 1) % len(choices)]
        self._cancel_request()
        self._place, self._note = None, ""
        self.clear()
        self.post_message(self.RankChosen())

    # Searching

    def action_search(self) -> None:
        """Start typing a search term."""
        self._typing = ""
        self._redraw()

    def on_key(self, event: events.Key) -> None:
        """Edit the search term; Enter searches backward from the end, Esc cancels."""
        if self._typing is None:
            if event.key == "escape" and self._is_away:
                event.stop()
                event.prevent_default()
                self._escape()
            return
        event.stop()
        event.prevent_default()
        if event.key == "escape":
            self._typing = None
        elif event.key == "enter":
            self._term, self._typing = self._typing, None
            if self._term:
                self._start_search(backwards=True, restart=True)
        elif event.key == "backspace":
            self._typing = self._typing[:-1]
        elif event.is_printable and event.character:
            self._typing += event.character
        self._redraw()

    def action_again(self, direction: int) -> None:
        """Find the next match down (1) or up (-1) the log."""
        if self._term:
            self._start_search(backwards=direction < 0, restart=not self._is_away)
        else:
            self.action_search()

    @property
    def _is_away(self) -> bool:
        """Whether a search is running, or anything other than the log's end is shown: Esc leaves it."""
        return self._searching or self._place is not None

    def _escape(self) -> None:
        """Cancel the running search, else leave the page and follow the log."""
        if self._searching:
            self._cancel_request()
            self._note = f"stopped searching for {self._term!r}"
            self._redraw()
        else:
            self.action_follow()

    def _cancel_request(self) -> None:
        """Ignore the answer to any pending request; a running search stops after the block it is reading."""
        self._asked += 1
        self._searching = False
        self.workers.cancel_node(self)

    def _start_search(self, *, backwards: bool, restart: bool) -> None:
        self._cancel_request()
        self._searching = True
        self._note = f"looking for {self._term!r} … Esc cancels"
        self._redraw()
        place = None if restart or self._place is None else (self._place[0], self._place[1])
        self._search(self._asked, self.sources(), self._term, backwards, place)

    @work(thread=True, exclusive=True)
    @releasing_worker
    def _search(
        self, asked: int, found: tuple[logs.Source, ...], wanted: str, backwards: bool, place: tuple[logs.Source, int] | None
    ) -> None:
        worker = get_current_worker()
        files = list(reversed(found)) if backwards else list(found)
        start: int | None = None
        if place is not None and place[0] in files:
            files = files[files.index(place[0]) :]
            start = place[1] if backwards else place[1] + 1
        for number, source in enumerate(files):
            first = number == 0 and start is not None
            at = start if first and start is not None else (size_bytes(source.path) if backwards else 0)
            offset = search.find(source.path, wanted, at, backwards, stop=lambda: worker.is_cancelled)
            if worker.is_cancelled:
                return
            if offset is not None:
                shown = search.page(source.path, offset, hit=offset)
                self.post_message(self.Found(asked, shown, source, offset, f"{wanted!r}"))
                return
        where = f" {'above' if backwards else 'below'}" if place else ""
        self.post_message(self.Found(asked, None, None, 0, f"{wanted!r} is not found{where}"))

    # Paging

    def action_beginning(self) -> None:
        """Show the log's beginning."""
        found = self.sources()
        if found:
            self._turn_to(found[0], 0)

    def action_follow(self) -> None:
        """Follow the log's end again."""
        self._cancel_request()
        self._note = ""
        if self._place is not None:
            self._place = None
            self.clear()
            self.post_message(self.RankChosen())
            return
        self.at_end = True
        self._show()

    def scroll_lines(self, by: int) -> None:
        """Scroll; past the lines in memory, continue in the file."""
        place = self._place
        room = self.inner_size.height
        if by < 0 and self.first <= 0 and (place is None or place[2].start > 0):
            source = place[0] if place is not None else next(iter(self.sources()), None)
            if source is not None and (place is not None or len(self.sources()) == 1):
                self._turn_to(
                    source, place[2].start if place is not None else max(0, size_bytes(source.path) - search.PAGE_BYTES)
                )
                return
        if by > 0 and place is not None and place[2].end < place[2].size and self.first >= len(self.lines) - room:
            self._turn_to(place[0], place[2].end)
            return
        super().scroll_lines(by)

    def _turn_to(self, source: logs.Source, offset: int) -> None:
        """Show another page and cancel any search."""
        self._cancel_request()
        self._page(self._asked, source, offset)

    @work(thread=True, exclusive=True)
    @releasing_worker
    def _page(self, asked: int, source: logs.Source, offset: int) -> None:
        self.post_message(self.Found(asked, search.page(source.path, offset, hit=offset), source, offset, ""))

    def on_job_log_found(self, event: Found) -> None:
        """Show what the thread read, unless the request is outdated."""
        event.stop()
        if event.asked != self._asked:
            return
        self._searching = False
        self._note = event.words
        if event.page is None or event.source is None:
            self._redraw()
            return
        self._place = (event.source, event.offset, event.page)
        self._lay_out_page()

    def _lay_out_page(self) -> None:
        if self._place is None:
            return
        page = self._place[2]
        lines: list[Line] = list(self.explained)
        at = 0
        for number, text in enumerate(page.lines):
            if number == page.hit:
                at = len(lines)
                lines += pointed_at(self._lines_of(text))
            else:
                lines += self._lines_of(text)
        self.at_end = False
        self.first = max(0, at - self.inner_size.height // 3)
        self.set_content(lines, title=self.title, subtitle=self.subtitle, footer=self._footer())

    def resized(self) -> None:
        """Wrap for the new width."""
        if self._place is None:
            super().resized()
        else:
            self._columns = self.inner_size.width
            self._lay_out_page()

    def _redraw(self) -> None:
        self.footer = self._footer()
        self.repaint()

    def _footer(self) -> Line:
        if self._typing is not None:
            return (
                Span("/", "key"),
                Span(f"{clean(self._typing)}_", "value"),
                Span("  Enter searches, Esc cancels", "dim"),
            )
        ranks = self._rank_spans()
        spans = [*ranks, Span("  / " if ranks else "/ ", "key"), Span("search", "dim")]
        if self._term:
            spans += [Span("  n N ", "key"), Span("next, previous", "dim")]
        if self._place is not None:
            source, _, page = self._place
            share = 100 * page.start // page.size if page.size else 0
            spans += [Span(f"  {source.label} at {share}%", "accent")]
        if self._note:
            spans += [Span(f"  {clean(self._note)}", "warn")]
        if not self.at_end or self._place is not None:
            spans += [Span("  End ", "key"), Span("follows the log", "dim")]
        return tuple(spans)

    def _rank_spans(self) -> list[Span]:
        """Return whose output is shown, and the key that changes it."""
        return [Span("r ", "key"), Span(self.label or "all", "value")]
