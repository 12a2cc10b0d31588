"""The dashboard: GPUs, training, processes and doctor on one screen, as many panes at a time as fit."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.screen import Screen

from gputop.history.smoothing import next_smoothing
from gputop.snapshot import Process, Run
from gputop.tui.drawing.gpus.pane import lines_wanted
from gputop.tui.screens.base import KeyBar, KeyHint
from gputop.tui.state.view import Settings, View
from gputop.tui.widgets.doctor_pane import DoctorPane
from gputop.tui.widgets.gpus import GpusPane
from gputop.tui.widgets.header import Header
from gputop.tui.widgets.lines import ViewPane
from gputop.tui.widgets.private_textual import install_compositor
from gputop.tui.widgets.processes import ProcessesPane
from gputop.tui.widgets.requests import RunChosen, SettingsChanged
from gputop.tui.widgets.tab_bar import TabBar
from gputop.tui.widgets.training import TrainingPane

WIDE = (120, 24)
"""From this many columns and rows on, there are two columns of panes."""
COLUMN = (100, 30)
"""From this size on, all panes are stacked in one column; below it, one is shown at a time."""
FRAME_LINES = 2
HEADLINE_LINES = 7
"""Height of the doctor's pane below the GPUs on a small screen."""
DENSITIES = ("auto", "full", "compact")

_HINTS = (
    # (hint, order in which hints are dropped from a narrow line: highest number first; 0 is kept)
    (KeyHint("l", "launch", "app.launch"), 1),
    (KeyHint("d", "doctor", "app.doctor"), 2),
    (KeyHint("enter", "details", "screen.open"), 3),
    (KeyHint("/", "filter", "screen.filter"), 5),
    (KeyHint("s", "sort", "screen.sort(1)"), 6),
    (KeyHint("k", "stop", "app.stop_chosen"), 4),
    (KeyHint("p", "pause", "app.pause"), 7),
    (KeyHint("?", "help", "app.help"), 0),
    (KeyHint("q", "quit", "app.leave"), 0),
)


def hints_for(columns: int) -> tuple[KeyHint, ...]:
    """Return the keys that fit into a line of this many cells, dropping the least important."""
    kept = list(_HINTS)
    while len(kept) > 2 and 1 + sum(len(hint.key) + len(hint.what) + 3 for hint, _ in kept) > columns:
        kept.remove(max(kept, key=lambda entry: entry[1]))
    return tuple(hint for hint, _ in kept)


class DashboardScreen(Screen[None]):
    """The first screen the user sees. The app hands it every new view through ``show``."""

    AUTO_FOCUS = None
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(place + 1), f"pane({place})", show=False) for place in range(4)),
        Binding("tab", "next_pane(1)", show=False),
        Binding("shift+tab", "next_pane(-1)", show=False),
        Binding("slash", "filter", show=False),
        Binding("escape", "clear", show=False),
        Binding("s,f6,greater_than_sign", "sort(1)", show=False),
        Binding("less_than_sign", "sort(-1)", show=False),
        Binding("I", "invert", show=False),
        Binding("t", "tree", show=False),
        Binding("n", "run(1)", show=False),
        Binding("N", "run(-1)", show=False),
        Binding("c", "density", show=False),
        Binding("y", "log_axis", show=False),
        Binding("r", "per_rank", show=False),
        Binding("left_square_bracket", "smoothing(-1)", show=False),
        Binding("right_square_bracket", "smoothing(1)", show=False),
    ]

    def __init__(self) -> None:
        super().__init__()
        install_compositor(self)
        self.view: View | None = None
        self.header = Header()
        self.gpus, self.training = GpusPane(), TrainingPane()
        self.processes, self.doctor = ProcessesPane(), DoctorPane()
        self.panes: tuple[ViewPane, ...] = (self.gpus, self.training, self.processes, self.doctor)
        self.tabs = TabBar(("GPUs", "Training", "Processes", "Doctor"))
        self.keys = KeyBar(hints_for(80))
        self.tab = 0
        self.shape = "wide"
        """"wide" (two columns), "column" (one) or "tabs" (one pane at a time)."""
        self._layout: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        """Lay out the header, the panes and the keys."""
        yield self.header
        yield self.tabs
        yield Container(*self.panes, id="panes")
        yield self.keys

    def on_mount(self) -> None:
        """Focus the process table."""
        self.processes.focus()

    def on_screen_resume(self) -> None:
        """Draw what arrived while another screen covered this one."""
        newest = getattr(self.app, "view", None)
        if isinstance(newest, View):
            self.show(newest)

    def show(self, view: View) -> None:
        """Draw this view in every visible pane."""
        self.view = view
        self._lay_out()
        self.header.show(view)
        for pane in self.panes:
            pane.show(view)

    @property
    def chosen_process(self) -> Process | None:
        """The process under the table's cursor."""
        return self.processes.chosen_process

    @property
    def chosen_run(self) -> Run | None:
        """The run under the cursor of the process tree, else the run whose training is shown."""
        row = self.processes.chosen_row
        if row is not None and row.kind == "run" and self.processes.has_focus:
            return row.run
        return self.view.run if self.view else None

    # Layout of the panes

    def on_resize(self, event: events.Resize) -> None:
        """Choose the layout for the new size."""
        self._lay_out()

    def _lay_out(self) -> None:
        columns, rows = self.size
        if not columns:
            return
        if columns >= WIDE[0] and rows >= WIDE[1]:
            self.shape = "wide"
        elif columns >= COLUMN[0] and rows >= COLUMN[1]:
            self.shape = "column"
        else:
            self.shape = "tabs"
        wanted = lines_wanted(self.view) if self.view else 0
        layout = (columns, rows, self.shape, self.tab if self.shape == "tabs" else None, wanted)
        if layout == self._layout:
            return
        self._layout = layout
        self.tabs.display = self.shape == "tabs"
        self.keys.set_hints(hints_for(columns))
        grid = self.query_one("#panes").styles
        grid.grid_size_columns = 2 if self.shape == "wide" else 1
        grid.grid_rows = self._row_heights(rows, wanted)
        for place, pane in enumerate(self.panes):
            pane.display = self.shape != "tabs" or place == self.tab or (self.tab == 0 and pane is self.doctor)
        self.tabs.choose(self.tab)

    def _row_heights(self, rows: int, wanted: int) -> str:
        """Return the heights of the grid's rows, as Textual's ``grid_rows`` takes them."""
        room = rows - 3
        if self.shape == "wide":
            top = min(max(wanted + FRAME_LINES, room // 2), int(room * 0.6))
            return f"{top} 1fr"
        if self.shape == "column":
            top = min(max(wanted + FRAME_LINES, 5), int(room * 0.4))
            return f"{top} 2fr 2fr {max(5, int(room * 0.2))}"
        return f"1fr {HEADLINE_LINES}" if self.tab == 0 else "1fr"

    # Panes

    def action_pane(self, place: int) -> None:
        """Focus a pane; on a small screen, also show it."""
        if self.shape == "tabs" and place != self.tab:
            self.tab = place
            self._lay_out()
            if self.view is not None:
                self.panes[place].show(self.view)
        self.panes[place].focus()

    def action_next_pane(self, by: int) -> None:
        """Focus the next or previous pane."""
        held = next((place for place, pane in enumerate(self.panes) if pane.has_focus), None)
        if self.shape == "tabs":
            held = self.tab
        self.action_pane(((held if held is not None else -by) + by) % len(self.panes))

    def on_tab_bar_chosen(self, event: TabBar.Chosen) -> None:
        """Show the pane whose name was clicked."""
        event.stop()
        self.action_pane(event.place)

    def action_open(self) -> None:
        """Open the details of what the focused pane shows."""
        if self.training.has_focus:
            self.training.action_open()
        else:
            self.processes.action_open()

    # Processes

    def action_filter(self) -> None:
        """Start typing a process filter."""
        self.action_pane(2)
        self.processes.start_typing()

    def action_clear(self) -> None:
        """Clear the filter."""
        self.processes.stop_typing(keep=False)

    def action_sort(self, by: int) -> None:
        """Sort by the next or previous column."""
        self.processes.set_order(self.processes.order.next_sort(by))

    def action_invert(self) -> None:
        """Reverse the sort order."""
        order = self.processes.order
        self.processes.set_order(replace(order, invert=not order.invert))

    def action_tree(self) -> None:
        """Switch between the processes as a tree by run and rank, and a flat list."""
        order = self.processes.order
        self.processes.set_order(replace(order, tree=not order.tree))

    # The run and how it is drawn

    def action_run(self, by: int) -> None:
        """Choose the next or previous run."""
        runs = self.view.snapshot.runs if self.view else ()
        if not runs or self.view is None:
            return
        # Without a chosen run (only untracked ones are alive), the first press shows the newest.
        held = next((place for place, run in enumerate(runs) if run.run_id == self.view.run_id), -1 if by > 0 else 0)
        self.post_message(RunChosen(runs[(held + by) % len(runs)].run_id))

    def _change(self, **changes: object) -> None:
        settings = self.view.settings if self.view else Settings()
        self.post_message(SettingsChanged(replace(settings, **changes)))  # type: ignore[arg-type]

    def action_density(self) -> None:
        """Switch to the next density of the GPU rows."""
        held = self.view.settings.density if self.view else "auto"
        place = DENSITIES.index(held) if held in DENSITIES else 0
        self._change(density=DENSITIES[(place + 1) % len(DENSITIES)])

    def action_log_axis(self) -> None:
        """Toggle the logarithmic loss axis."""
        self._change(log_axis=not (self.view is not None and self.view.settings.log_axis))

    def action_per_rank(self) -> None:
        """Switch between one curve per rank, and mean and spread."""
        self._change(per_rank=not (self.view is not None and self.view.settings.per_rank))

    def action_smoothing(self, by: int) -> None:
        """Smooth the loss more or less."""
        self._change(smoothing=next_smoothing(self.view.settings.smoothing if self.view else 0.0, by))
