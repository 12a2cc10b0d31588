"""The dashboard: GPUs, training, processes and doctor on one screen, as many panes at a time as fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container

from gputop.history.smoothing import next_smoothing
from gputop.questions import Answer
from gputop.run_questions import GpusAnswer
from gputop.settings.table import DENSITIES
from gputop.settings.values import Settings
from gputop.snapshot import Process, ProcessRun, Run
from gputop.tui.drawing.doctor.pane import doctor_lines_wanted
from gputop.tui.drawing.gpus.pane import SHARE_MOST, lines_wanted
from gputop.tui.drawing.processes.rows import SORTABLE, Order
from gputop.tui.drawing.training import how_to_track
from gputop.tui.screens.base import KeyBar, KeyHint
from gputop.tui.screens.stacking import Need, stack
from gputop.tui.screens.stored import ASK_EVERY_S, StoredRuns
from gputop.tui.state import copying
from gputop.tui.state.copying import Copy
from gputop.tui.state.layout import Layout
from gputop.tui.state.view import View, has_tabs
from gputop.tui.terminal.settled_screen import SettledScreen
from gputop.tui.widgets.doctor_pane import DoctorPane
from gputop.tui.widgets.gpus import GpusPane
from gputop.tui.widgets.header import Header
from gputop.tui.widgets.processes import ProcessesPane
from gputop.tui.widgets.requests import Asked, RunChosen, SettingsChanged
from gputop.tui.widgets.ruled import ViewPane
from gputop.tui.widgets.training import TrainingPane

HEADER_LINES, KEY_LINES, RULE_LINES = 2, 1, 1
PANES = ("GPUs", "training", "processes", "doctor")
TRAINING_LINES_MIN, PROCESS_LINES_MIN, DOCTOR_LINES_MIN = 6, 4, 4
"""With fewer rows, a chart shows no curve, a table too few rows for its heading, and a finding no fix."""
ROWS_SMALL = 30
"""Up to this height, more processes would leave the chart fewer rows than it has at 80x24."""

HINTS = (
    KeyHint("l", "launch", "app.launch", 2),
    KeyHint("d", "doctor", "app.doctor", 3),
    KeyHint("o", "runs", "app.runs", 2),
    KeyHint("Enter", "details", "screen.open", 2),
    KeyHint("/", "filter", "screen.filter", 1),
    KeyHint("Space", "tag", "screen.tag", 5),
    KeyHint("k", "stop", "app.stop_chosen", 1),
    KeyHint("s", "sort", "screen.sort(1)", 4),
    KeyHint("Left/Right", "commands", "screen.commands(1)", 9),
    KeyHint("y", "copy", "app.copy", 6),
    KeyHint("p", "pause", "app.pause", 7),
    KeyHint("1-4", "panes", "screen.next_pane(1)", 6),
    KeyHint("S", "picture", "app.save_screen", 8),
    KeyHint(":", "actions", "app.palette", 1),
    KeyHint("?", "help", "app.help", 0),
    KeyHint("q", "quit", "app.leave", 0),
)


REPLAY_HINTS = (
    KeyHint("p", "pause, play", "app.pause", 1),
    KeyHint("( )", "a minute back, forward", "app.replay_seek(-1)", 1),
    KeyHint("{ }", "slower, faster", "app.replay_faster", 1),
    KeyHint(".", "next", "app.replay_step", 4),
)
_LOCAL_KEYS = ("l", "k")
"""Keys that act on this machine: they do nothing on the screen of another one or of a recording."""
_TABLE_KEYS = ("/", "Space", "k", "s", "Left/Right")
"""Keys of the processes: named last while their table is not visible."""
_PANE_KEYS = "1-4"


def hints_of(
    remote: str | None, over_hosts: bool = False, hidden: Sequence[int] = (), replay: bool = False
) -> tuple[KeyHint, ...]:
    """Return the keys of the screen of this machine, of another one, or of a recording.

    ``hidden`` are the places of the panes that are not visible: how to reach them comes first.
    """
    back = (KeyHint("Esc", "hosts", "screen.clear", 1),) if over_hosts else ()
    hints = [hint for hint in HINTS if (remote is None and not replay) or hint.key not in _LOCAL_KEYS]
    if replay:
        own = {hint.key for hint in REPLAY_HINTS}
        hints = [*REPLAY_HINTS, *(hint for hint in hints if hint.key not in own)]
    if PANES.index("processes") in hidden:
        hints = [hint._replace(drop=max(hint.drop, 5)) if hint.key in _TABLE_KEYS else hint for hint in hints]
    if not hidden:
        return (*back, *hints)
    first = next(hint for hint in HINTS if hint.key == _PANE_KEYS)._replace(drop=1)
    if len(hidden) == 1:
        (place,) = hidden
        first = KeyHint(str(place + 1), PANES[place], f"screen.pane({place})", 1)
    return (*back, first, *(hint for hint in hints if hint.key != _PANE_KEYS))


class DashboardScreen(SettledScreen[None]):
    """The first screen the user sees. The app hands it every new view through ``show``."""

    AUTO_FOCUS = None
    BINDINGS: ClassVar[list[BindingType]] = [
        *(Binding(str(place + 1), f"pane({place})", f"go to the {name}", show=False) for place, name in enumerate(PANES)),
        Binding("tab", "next_pane(1)", "next pane", show=False),
        Binding("shift+tab", "next_pane(-1)", "previous pane", show=False),
        Binding("slash", "filter", "filter the processes", show=False),
        Binding("escape", "clear", "clear the filter or the tags; back to the hosts", show=False),
        Binding("space", "tag", "tag the chosen process", show=False),
        Binding("s,f6,greater_than_sign", "sort(1)", "sort by the next column", show=False),
        Binding("less_than_sign", "sort(-1)", "sort by the previous column", show=False),
        Binding("I", "invert", "invert the order", show=False),
        Binding("t", "tree", "processes as a tree by run and rank", show=False),
        Binding("n", "run(1)", "next run", show=False),
        Binding("N", "run(-1)", "previous run", show=False),
        Binding("c", "density", "density of the GPU rows", show=False),
        Binding("Y", "log_axis", "logarithmic loss axis", show=False),
        Binding("r", "per_rank", "one curve per rank, or mean and spread", show=False),
        Binding("left_square_bracket", "smoothing(-1)", "less smoothing", show=False),
        Binding("right_square_bracket", "smoothing(1)", "more smoothing", show=False),
    ]

    def __init__(self, layout: Layout | None = None, *, over_hosts: bool = False) -> None:
        """``over_hosts``: it was opened from the hosts screen, to which Escape returns."""
        super().__init__()
        self._over_hosts = over_hosts
        held = layout or Layout()
        self.view: View | None = None
        self._stored = StoredRuns()
        self.header = Header()
        self.gpus, self.training = GpusPane(), TrainingPane()
        self.processes, self.doctor = ProcessesPane(), DoctorPane()
        sort = held.sort if held.sort in SORTABLE else None
        self.processes.order = Order(sort or Order().sort, bool(held.invert), tree=bool(held.tree))
        self.panes: tuple[ViewPane, ...] = (self.gpus, self.training, self.processes, self.doctor)
        self.keys = KeyBar(HINTS)
        self.tab = 0
        self.shape = "all"
        """"all" (every pane) or "tabs" (the most important ones, or one at a time)."""
        self._layout: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        """Lay out the header, the panes and the keys."""
        yield self.header
        yield Container(*self.panes, id="panes")
        yield self.keys

    def on_mount(self) -> None:
        """Focus the process table."""
        self.focus_now(self.processes)
        self.set_interval(ASK_EVERY_S, self._ask_for_past)

    def _ask_for_past(self) -> None:
        """Ask for what was recorded of the shown run's GPUs before this screen was opened, until there is an answer."""
        question = self._stored.past_question(self.view) if self.view is not None and self.is_current else None
        if question is not None:
            self.post_message(Asked(question))

    def take_answer(self, answer: Answer) -> None:
        """Keep what was recorded."""
        if isinstance(answer, GpusAnswer) and self.view is not None:
            self._stored.take_gpus(answer, self.view.history)
            self.settle()

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """Take what arrived while another screen covered this one."""
        newest = getattr(self.app, "view", None)
        if isinstance(newest, View):
            self.view = newest

    def show(self, view: View) -> None:
        """Draw this view."""
        self.view = view
        self.settle()

    def show_age(self, view: View) -> None:
        """Draw the header of this view, which differs from the last one only in its age."""
        self.view = view
        self.header.show(view)

    def set_heights(self) -> None:
        """Give the panes their heights."""
        self._lay_out()

    def fill(self) -> None:
        """Draw the view in every visible pane."""
        if self.view is not None:
            self.header.show(self.view)
            for pane in self.panes:
                pane.show(self.view)

    @property
    def chosen_process(self) -> Process | None:
        """The process under the table's cursor."""
        return self.processes.chosen_process

    @property
    def all_filtered_out(self) -> bool:
        """Whether a filter leaves no line in the table."""
        return bool(self.processes.filter_text()) and self.processes.chosen_row is None

    @property
    def tagged_processes(self) -> tuple[Process, ...]:
        """The processes tagged in the table."""
        return self.processes.tagged_processes

    @property
    def chosen_run(self) -> Run | None:
        """The run under the cursor of the process tree, else the run whose training is shown."""
        row = self.processes.chosen_row
        if row is not None and row.kind == "run" and self.processes.has_focus:
            return row.run
        return self.view.run if self.view else None

    @property
    def chosen_process_run(self) -> ProcessRun | None:
        """The run without a journal that the training pane shows in full, while there is nothing else to show in it."""
        found = self.view.snapshot.process_runs if self.view is not None and self.view.run is None else ()
        return found[0] if found else None

    def copyable(self) -> Copy | None:
        """Return what is under the cursor of the focused pane."""
        if self.gpus.has_focus:
            return copying.of_device(self.gpus.chosen_device)
        if self.training.has_focus:
            return copying.of_run(self.view.run if self.view else None) or copying.of_process_run(self.chosen_process_run)
        if self.doctor.has_focus:
            return copying.of_finding(self.view.findings[0] if self.view and self.view.findings else None)
        row = self.processes.chosen_row
        if row is None or row.process is not None:
            return copying.of_process(self.chosen_process)
        return copying.of_run(row.run) or copying.of_device(row.device)

    # Layout of the panes

    def _lay_out(self) -> None:
        columns, rows = self.size
        if not columns:
            return
        self.shape = "tabs" if has_tabs(columns, rows) else "all"
        heights = self._heights(columns, rows)
        hidden = [place for place, height in enumerate(heights) if not height]
        remote, replay = (self.view.remote, self.view.feed == "replay") if self.view is not None else (None, False)
        self.keys.set_hints(hints_of(remote, self._over_hosts, hidden, replay))
        layout = (columns, rows, self.shape, self.tab if self.shape == "tabs" else None, *heights)
        if layout == self._layout:
            return
        self._layout = layout
        for pane, height in zip(self.panes, heights, strict=True):
            if pane.has_focus and not height:
                self.set_focus(None)  # else Textual gives it to whichever pane comes next
            pane.display = height > 0
            pane.styles.height = height
        if self.focused is None and self.processes.display:
            self.focus_now(self.processes)

    def _heights(self, columns: int, rows: int) -> list[int]:
        """Return the rows of each pane; 0 hides it."""
        names = ("gpus", "training", "processes", "doctor")
        room = max(1, rows - HEADER_LINES - KEY_LINES)
        if self.shape == "tabs" and self.tab:
            return [room if place == self.tab else 0 for place in range(len(names))]
        if self.view is None:
            return [room // 4] * 3 + [room - room // 4 * 3]
        view, width = self.view, columns - 2
        gpus = RULE_LINES + lines_wanted(view, width, room)
        doctor = RULE_LINES + doctor_lines_wanted(view, width, room)
        training = RULE_LINES + (0 if view.run else len(how_to_track(view, width)))
        processes = RULE_LINES + self.processes.lines_wanted(view, width)
        if view.run:
            processes = min(processes, max(PROCESS_LINES_MIN, room // (4 if rows > ROWS_SMALL else 5)))
        needs = {
            "gpus": Need(min(gpus, max(2, int(room * SHARE_MOST))), gpus),
            "training": Need(TRAINING_LINES_MIN if view.run else RULE_LINES, training),
            "processes": Need(min(processes, PROCESS_LINES_MIN), processes),
            "doctor": Need(min(doctor, DOCTOR_LINES_MIN), doctor),
        }
        heights = stack(room, needs, ("gpus", "doctor", "training", "processes"), "training" if view.run else "processes")
        return [heights[name] for name in names]

    # Panes

    def _focused_place(self) -> int | None:
        return next((place for place, pane in enumerate(self.panes) if pane is self.focused and pane.display), None)

    def action_pane(self, place: int) -> None:
        """Focus a pane; on a small screen, also show it."""
        if self.shape == "tabs" and place != self.tab:
            self.tab = place
            self._lay_out()
        self.focus_now(self.panes[place])
        self.settle()

    def action_next_pane(self, by: int) -> None:
        """Focus the next or previous pane."""
        held = self._focused_place()
        if held is None and self.shape == "tabs":
            held = self.tab
        self.action_pane(((held if held is not None else -by) + by) % len(self.panes))

    def action_open(self) -> None:
        """Open the details of what the focused pane shows."""
        if self.training.has_focus:
            self.training.action_open()
        elif self.gpus.has_focus:
            self.gpus.action_open()
        elif self.doctor.has_focus:
            self.app.call_later(self.app.run_action, "doctor")
        else:
            self.processes.action_open()

    # Processes

    def action_filter(self) -> None:
        """Start typing a process filter."""
        self.action_pane(2)
        self.processes.start_typing()

    def action_clear(self) -> None:
        """Clear the filter; without one, the tags; without any, go back to the hosts."""
        if self._over_hosts and not self.processes.filter_text() and not self.tagged_processes and self.app.screen is self:
            self.app.pop_screen()
            return
        self.processes.clear()

    def action_commands(self, by: int) -> None:
        """Scroll the commands, if the table is visible."""
        if self.processes.display:
            self.processes.action_scroll_commands(by)

    def action_tag(self) -> None:
        """Tag the process under the cursor, if the table is visible."""
        if self.processes.display:
            self.processes.tag()

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
