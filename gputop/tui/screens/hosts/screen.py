"""The hosts screen: the first one if several hosts are watched. Enter opens the dashboard of the host under the cursor."""

from __future__ import annotations

from typing import ClassVar, Protocol, runtime_checkable

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container

from gputop.snapshot import Run
from gputop.tui.drawing.hosts.details import draw_host
from gputop.tui.drawing.hosts.whole import header_line, verdict_line
from gputop.tui.drawing.loss import LossChart
from gputop.tui.screens.base import KeyBar, KeyHint
from gputop.tui.screens.hosts.pane import HostsPane
from gputop.tui.state.copying import Copy
from gputop.tui.state.fleet import FleetView, HostView
from gputop.tui.terminal.settled_screen import SettledScreen
from gputop.tui.widgets.lines import LinesWidget
from gputop.tui.widgets.requests import HostChosen
from gputop.tui.widgets.ruled import RuledPane

DETAIL_LINES_MIN = 8
"""With fewer rows, the details are not worth hiding hosts."""
HEAD_LINES, KEY_LINES = 2, 1

HINTS = (
    KeyHint("Enter", "dashboard", "screen.open", 1),
    KeyHint("/", "filter", "screen.filter", 1),
    KeyHint("l", "launch", "app.launch", 2),
    KeyHint("d", "doctor", "app.doctor", 2),
    KeyHint("o", "runs", "app.runs", 3),
    KeyHint("w", "where", "app.where", 4),
    KeyHint("p", "pause", "app.pause", 4),
    KeyHint("S", "picture", "app.save_screen", 8),
    KeyHint(":", "actions", "app.palette", 2),
    KeyHint("?", "help", "app.help", 0),
    KeyHint("q", "quit", "app.leave", 0),
)


@runtime_checkable
class Watcher(Protocol):
    """What the screen needs from the app."""

    def fleet_view(self) -> FleetView:
        """Return the newest view of all hosts."""


class HostPane(RuledPane):
    """The host under the cursor."""

    def __init__(self) -> None:
        super().__init__("Host", "", id="host")
        self.can_focus = False
        self._chart = LossChart()
        self._fleet: FleetView | None = None
        self._shown: str | None = None

    def show_host(self, fleet: FleetView, name: str | None) -> None:
        """Draw this host; None: no host is under the cursor."""
        self._fleet, self._shown, self.ascii = fleet, name, fleet.settings.ascii
        if self.display and self.is_mounted and self.size:
            self._form()
            self.repaint()

    def resized(self) -> None:
        """Lay out the lines for the new size."""
        self._form()

    def _form(self) -> None:
        drawing = draw_host(self._fleet, self._shown, self._chart, *self.inner_size)
        self.title, self.subtitle, self.footer = drawing.title, drawing.subtitle, drawing.footer
        self.take_lines(drawing.lines)


class HostsScreen(SettledScreen[None]):
    """All hosts in a list, and the one under the cursor below it. The app hands it every new view."""

    NAME = "hosts"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "filter the hosts", show=False),
        Binding("escape", "clear", "clear the filter", show=False),
    ]
    DEFAULT_CSS = """
    HostsScreen { layout: vertical; overflow: hidden; }
    HostsScreen #head { height: 2; }
    HostsScreen #panes { layout: vertical; height: 1fr; overflow: hidden; }
    """

    def __init__(self) -> None:
        super().__init__()
        self.fleet: FleetView | None = None
        self.head = LinesWidget(id="head")
        self.hosts, self.host = HostsPane(), HostPane()

    def compose(self) -> ComposeResult:
        """Lay out the two lines on all hosts, the list, the details and the keys."""
        yield self.head
        yield Container(self.hosts, self.host, id="panes")
        yield KeyBar(HINTS)

    def on_mount(self) -> None:
        """Focus the list."""
        self.focus_now(self.hosts)

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """Take what arrived while another screen covered this one."""
        if isinstance(self.app, Watcher):
            self.fleet = self.app.fleet_view()

    def show_fleet(self, fleet: FleetView) -> None:
        """Draw the newest view of all hosts."""
        self.fleet = fleet
        self.settle()

    def set_heights(self) -> None:
        """Divide the rows between the list and the details."""
        if self.fleet is not None:
            self.hosts.take(self.fleet)
            self._lay_out()

    def fill(self) -> None:
        """Draw all hosts, and the one under the cursor."""
        fleet = self.fleet
        if fleet is None:
            return
        for pane in self.query(LinesWidget):
            pane.draw_ascii(fleet.settings.ascii)
        self.head.set_lines(
            [header_line(fleet, self.hosts.rows, self.size.width), verdict_line(fleet, self.hosts.rows, self.size.width)]
        )
        self.hosts.draw_list()
        self._show_host()

    def _lay_out(self) -> None:
        columns, rows = self.size
        room = max(1, rows - HEAD_LINES - KEY_LINES)
        most = room - DETAIL_LINES_MIN
        wanted = self.hosts.lines_wanted(max(1, columns - 2), most) if most > 0 else room
        height = room if most < DETAIL_LINES_MIN // 2 else min(wanted, most)
        self.hosts.styles.height = height
        self.host.display = height < room
        self.host.styles.height = max(0, room - height)

    def _show_host(self) -> None:
        if self.fleet is not None:
            self.host.show_host(self.fleet, self.hosts.chosen)

    def _chosen(self) -> HostView | None:
        hosts = self.fleet.hosts if self.fleet is not None else ()
        return next((host for host in hosts if host.status.host == self.hosts.chosen), None)

    def on_host_chosen(self, message: HostChosen) -> None:
        """Show another host below the list, and tell the app."""
        self._show_host()

    @property
    def chosen_run(self) -> Run | None:
        """The run of the host under the cursor."""
        host = self._chosen()
        return host.view.run if host is not None and host.view is not None else None

    def copyable(self) -> Copy | None:
        """Return the name of the host under the cursor."""
        return Copy("name of the host", self.hosts.chosen) if self.hosts.chosen is not None else None

    def action_open(self) -> None:
        """Open the dashboard of the host under the cursor."""
        self.hosts.action_open()

    def action_filter(self) -> None:
        """Start typing a filter."""
        self.hosts.start_typing()

    def action_clear(self) -> None:
        """Clear the filter."""
        self.hosts.stop_typing(keep=False)
