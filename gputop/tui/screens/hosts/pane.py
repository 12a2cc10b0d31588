"""The list of hosts: a cursor that stays on its host while the order changes, and a filter typed into the pane."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType

from gputop.errors import UsageError
from gputop.tui.drawing.hosts import listing
from gputop.tui.drawing.hosts.filtering import HostFilter, parse
from gputop.tui.drawing.hosts.row import HostRow, by_need, host_row
from gputop.tui.drawing.line import Line, clean, line
from gputop.tui.state.fleet import FleetView, HostView
from gputop.tui.widgets.lines import LinesWidget
from gputop.tui.widgets.requests import HostChosen, HostOpened
from gputop.tui.widgets.ruled import RuledPane
from gputop.tui.widgets.typed_filter import TypedFilter

RULE_LINES, HEADING_LINES = 1, 1


class HostsPane(TypedFilter, RuledPane):
    """Every host, those that need attention first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "open", "the dashboard of the chosen host", show=False),
        Binding("left", "beside(-1)", "the host on the left", show=False),
        Binding("right", "beside(1)", "the host on the right", show=False),
    ]

    def __init__(self) -> None:
        super().__init__("Hosts", "", id="hosts")
        self.rows: tuple[HostRow, ...] = ()
        """Every host, in the order of the list."""
        self.chosen: str | None = None
        self._fleet: FleetView | None = None
        self._shown: tuple[HostRow, ...] = ()
        self._held = False
        """True once the user has chosen a host: the cursor then stays on it; before, it stays on the first."""
        self._beside = 1
        self._cells = 1
        self._typed = ""
        self._filter: HostFilter = parse("")
        self._problem: UsageError | None = None
        self._drawn = listing.DrawnRows()
        self._known: dict[str, tuple[tuple[object, ...], HostRow]] = {}

    def take(self, fleet: FleetView) -> None:
        """Take the newest view; ``draw_list`` shows it."""
        self._fleet = fleet
        self.ascii = fleet.settings.ascii
        self.rows = tuple(by_need([self._row(host, fleet.time) for host in fleet.hosts]))
        self._select()

    def lines_wanted(self, columns: int, lines: int) -> int:
        """Return how many of ``lines`` the whole list takes, with its rule and heading."""
        grid = listing.grid_of(self._shown, columns, max(1, lines - RULE_LINES - HEADING_LINES))
        return RULE_LINES + HEADING_LINES + bool(self._problem) - (-len(self._shown) // grid.beside)

    def draw_list(self) -> None:
        """Draw the hosts that the filter keeps."""
        if self.size and self.display:
            self._form()
            self.repaint()

    def resized(self) -> None:
        """Lay out the lines for the new size."""
        self._form()

    def _row(self, host: HostView, now: float) -> HostRow:
        """Return a host's row; it is rebuilt only if something about it changed."""
        view, status = host.view, host.status
        age = int(now - status.last_heard_at) if host.is_lost and status.last_heard_at is not None else None
        stale = int(view.stale_s) if view is not None and view.stale_s is not None else None
        seen = (id(view.snapshot), view.snapshot.sequence, view.findings, view.run_id) if view is not None else ()
        key = (status.state, status.message, age, stale, *seen)
        known = self._known.get(status.host)
        if known is None or known[0] != key:
            known = self._known[status.host] = key, host_row(host, now)
        return known[1]

    def _select(self) -> None:
        self._shown = tuple(row for row in self.rows if self._filter(row))
        if not self._held or all(row.host != self.chosen for row in self._shown):
            self._choose(self._shown[0].host if self._shown else None)

    def _choose(self, host: str | None) -> None:
        if host != self.chosen:
            self.chosen = host
            self.post_message(HostChosen(host))

    def _form(self) -> None:
        columns, lines = self.inner_size
        above: tuple[Line, ...] = ()
        if self._problem is not None:
            above = (line((clean(self._problem.message), "warn" if self.typing else "bad")),)
        grid = listing.grid_of(self._shown, columns, max(1, lines - HEADING_LINES - len(above)))
        self._beside, self._cells = grid.beside, grid.cells
        self.header_lines = len(above) + HEADING_LINES
        drawn = self._drawn.lines(self._shown, grid, self.chosen, columns, self.ascii)
        if not self._shown:
            drawn = (line(("No host matches the filter.", "dim")),)
        self.footer = self.input_line() if self.typing or self._typed else ()
        some = len(self._shown) < len(self.rows)
        self.title = line(("Hosts", "title"), (f"  {len(self._shown)} of {len(self.rows)}" if some else "", "dim"))
        self.take_lines((*above, listing.heading(grid, columns, self.ascii), *drawn))
        place = self._place()
        if place is not None:
            self._reveal(self.header_lines + place // self._beside)

    def _place(self) -> int | None:
        return next((place for place, row in enumerate(self._shown) if row.host == self.chosen), None)

    # Moving

    def _move(self, by: int) -> None:
        self._step(by * self._beside)

    def action_beside(self, by: int) -> None:
        """Choose the host on the left or on the right."""
        self._step(by)

    def _step(self, by: int) -> None:
        place = self._place()
        if place is None:
            return
        target = min(max(0, place + by), len(self._shown) - 1)
        self._held = True
        self._choose(self._shown[target].host)
        self.draw_list()

    def on_lines_widget_line_clicked(self, event: LinesWidget.LineClicked) -> None:
        """Choose a clicked host; open it on a double click."""
        event.stop()
        column = min(self._beside - 1, max(0, event.column) // (self._cells + len(listing.GAP)))
        place = (event.index - self.header_lines) * self._beside + column
        if event.index < self.header_lines or place >= len(self._shown):
            return
        self._held = True
        self._choose(self._shown[place].host)
        self.draw_list()
        if event.chain == 2:
            self.action_open()

    def action_open(self) -> None:
        """Open the dashboard of the chosen host."""
        if self.chosen is not None:
            self.post_message(HostOpened(self.chosen))

    # The filter

    def filter_text(self) -> str:
        """Return the filter as typed."""
        return self._typed

    def set_filter(self, text: str) -> None:
        """Show the hosts that a filter keeps; while it is invalid, those of the last valid one, and what is wrong."""
        self._typed, self._problem = text, None
        try:
            self._filter = parse(text)
        except UsageError as problem:
            self._problem = problem
        self._select()
        self.draw_list()
