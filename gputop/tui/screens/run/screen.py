"""The screen of one run: which run it shows, next to which others, and in which of its arrangements."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.timer import Timer
from textual.widget import Widget

from gputop.questions import Answer
from gputop.run_questions import GpusAnswer, GpusQuestion, RunsAnswer, RunsQuestion
from gputop.settings.values import Settings
from gputop.snapshot import ProcessRun
from gputop.tui.drawing.runs.overlay import HUES
from gputop.tui.drawing.runs.strips import first_subject
from gputop.tui.drawing.untracked.pane import run_of_curve
from gputop.tui.screens.run.panes import RunPanes
from gputop.tui.screens.stored import ASK_EVERY_S
from gputop.tui.state import copying
from gputop.tui.state.copying import Copy
from gputop.tui.state.untracked import without_curve
from gputop.tui.state.view import View
from gputop.tui.widgets.metric_grid import MetricGrid
from gputop.tui.widgets.requests import Asked, ProcessRunOpened
from gputop.tui.widgets.run_list import RunList

WIDE_COLUMNS = 120
"""From this width on, the list of runs is next to the charts."""
HELD_S = 0.1
"""For how long the charts of the run before may stay while a chosen run is being read: it then appears in one frame, complete.
A screen that responds within this time seems to respond at once."""


class RunScreen(RunPanes):
    """Shows the run ``run_id``; calls ``change`` when a key changes how charts are drawn (the app's settings)."""

    NAME = "run"
    DEFAULT_CSS = """
    RunScreen #summary { height: 2; }
    RunScreen #side { width: 42; }
    RunScreen #config { height: 40%; }
    RunScreen #metric { height: 1fr; }
    RunScreen #grid { display: none; }
    RunScreen.grid #grid { display: block; }
    RunScreen.grid ChartPane, RunScreen.grid #use, RunScreen.grid #ranks { display: none; }
    RunScreen.small #ranks { display: none; }
    RunScreen.table #ranks { display: block; }
    RunScreen.table ChartPane, RunScreen.table #use { display: none; }
    RunScreen.narrow #side { display: none; }
    RunScreen.narrow.list #side { display: block; width: 1fr; }
    RunScreen.narrow.list #main { display: none; }
    RunScreen.narrow.list #config { display: none; }
    RunScreen.narrow.table #side { display: block; width: 1fr; }
    RunScreen.narrow.table #runs { display: none; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("x", "x_axis", "time, steps, epochs or time of day along the axis", show=False),
        Binding("g", "grid", "small charts of all metrics", show=False),
        Binding("h", "subject", "what the heat rows of the ranks show", show=False),
        Binding("t", "table", "ranks and configuration", show=False),
        Binding("o", "list", "list of runs, or the charts", show=False),
        Binding("slash", "filter", "filter the runs, or search the metrics", show=False),
        Binding("n", "run(1)", "next run", show=False),
        Binding("N", "run(-1)", "previous run", show=False),
        Binding("k,f9", "stop", "stop the run", show=False),
        Binding("enter", "open", "charts of the chosen run", show=False),
        Binding("space", "mark", "overlay the chosen run", show=False),
        Binding("u", "unmark", "only the chosen run", show=False),
    ]

    def __init__(
        self,
        run_id: str,
        view: View | None = None,
        change: Callable[[Settings], None] | None = None,
        *,
        listed: bool = False,
    ) -> None:
        super().__init__(run_id, view, change)
        self.set_class(listed, "list")
        self._list_first = listed
        self._held: Timer | None = None
        """Runs while the chosen run is not shown yet."""
        self._asked_ahead: tuple[RunsQuestion | GpusQuestion, ...] = ()
        """What was asked ahead last."""
        self._below_table: tuple[dict[str, bool], Widget | None] = ({}, None)
        """Whether the grid or the list was open before the tables filled the screen, and what had the focus."""

    def on_mount(self) -> None:
        """Ask for the stored runs, and again while an answer is missing."""
        self.repeat(ASK_EVERY_S, self._ask)

    def take(self, view: View) -> None:
        """Take the newest view and its chart settings."""
        first = self.view is None
        if self.change is not None or self.own_settings is None:
            self.settings = view.settings
        else:
            self.settings = replace(view.settings, **self.own_settings)
        super().take(view)
        if first:
            self._ask()
        else:
            self._ask_ahead(view)

    def take_size(self, size: Size) -> None:
        """Put the list next to the charts, or in their place."""
        super().take_size(size)
        self.choose_classes(narrow=size.width < WIDE_COLUMNS)
        self._focus_first()

    def _focus_first(self) -> None:
        """Focus the list where it is visible."""
        visible = not self.has_class("narrow") or self.has_class("list")
        runs = self.query_one(RunList)
        if self.has_class("grid"):
            return
        if visible and self.focused is not runs:
            self.focus_now(runs)
        elif not visible and self.focused in (runs, self.query_one(MetricGrid)):
            self.focus_now(None)

    def _ask(self) -> None:
        """Ask for what is missing: for the run and its GPUs at once."""
        if not self.is_current or self.view is None:
            return
        for missing in (self._missing_runs(self.view), self.stored.gpus_question(self.run_id, self.view)):
            if missing is not None:
                self.post_message(Asked(missing))

    def _ask_ahead(self, view: View) -> None:
        """Ask once for the runs that the next key may choose: a stored run then opens as fast as a live one."""
        if not self.is_current or self._is_being_read(view):
            return
        ahead = self.stored.questions_ahead(self.query_one(RunList).likely(), view)
        if ahead != self._asked_ahead:
            self._asked_ahead = ahead
            view.history.keep((self.run_id, *self.marked))
            for question in ahead:
                self.post_message(Asked(question))

    def _missing_runs(self, view: View) -> RunsQuestion | None:
        return self.stored.question((self.run_id, *self.marked), view)

    def take_answer(self, answer: Answer) -> None:
        """Keep stored runs, and the readings of their GPUs."""
        if self.view is None:
            return
        run_ids = answer.question.run_ids if isinstance(answer, RunsAnswer | GpusAnswer) else ()
        if isinstance(answer, RunsAnswer):
            self.stored.take(answer, self.view.history)
            if answer.problem and (not run_ids or self._shows(run_ids)):
                self.notify(answer.problem, severity="warning")
            if self.is_current and (missing := self._missing_runs(self.view)) is not None:
                self.post_message(Asked(missing))
            if not run_ids or self._shows(run_ids):
                self._show_read(self.view)
        elif isinstance(answer, GpusAnswer):
            self.stored.take_gpus(answer, self.view.history)
            missing = self._missing_runs(self.view)
            if (missing is None or not missing.run_ids) and self._shows(run_ids):
                self._show_read(self.view)  # else the run itself follows: one drawing shows both

    def _shows(self, run_ids: tuple[str, ...]) -> bool:
        """Return whether one of these runs is on the screen."""
        return any(run_id == self.run_id or run_id in self.marked for run_id in run_ids)

    def _show_read(self, view: View) -> None:
        """Show what was read, unless the rest of the chosen run is about to follow."""
        if self._held is None or not self._is_being_read(view):
            self._show_chosen()

    def _show_chosen(self) -> None:
        if self._held is not None:
            self._held.stop()
            self._held = None
        self.settle()

    def _is_being_read(self, view: View) -> bool:
        """Return whether more of the run shown is known soon."""
        runs = self._missing_runs(view)
        return (runs is not None and bool(runs.run_ids)) or self.stored.gpus_question(self.run_id, view) is not None

    def copyable(self) -> Copy | None:
        """Return the id of the run shown; of one without a curve, the PIDs of its ranks."""
        return copying.of_process_run(self._without_curve) or copying.of_run(self.chosen_run)

    # The list

    def on_run_list_chosen(self, event: RunList.Chosen) -> None:
        """Show the chosen run."""
        event.stop()
        self.run_id = event.run_id
        self.uuids, self.subject = (), None
        if event.opened and self._without_curve is not None:
            self.action_open()
        elif event.opened and self.has_class("list"):
            self.action_list()
        self._ask()
        if self.view is None or not self._is_being_read(self.view):
            self._show_chosen()
            return
        self._draw_list(self.view)  # the cursor does not wait
        if self._held is None:
            self._held = self.set_timer(HELD_S, self._show_chosen)

    def action_mark(self) -> None:
        """Keep the curve of the run under the cursor while others are chosen, or no longer."""
        if self.marked.pop(self.run_id, None) is None and self.run_id:
            free = next((hue for hue in HUES if hue not in self.marked.values()), None)
            if free is None:
                self.notify(f"{len(HUES)} runs are marked: more curves would be indistinguishable.")
                return
            self.marked[self.run_id] = free
        self.settle()

    def action_unmark(self) -> None:
        """Draw only the run under the cursor."""
        self.marked.clear()
        self.settle()

    def action_list(self) -> None:
        """Switch between the list and the charts if there is no space for both; otherwise say where the list is."""
        if not any(self.has_class(name) for name in ("narrow", "table", "grid")):
            self.notify("The runs are on the left: Up and Down choose one, / filters them.", timeout=4)
        self.choose_classes(list=not self.has_class("list"), table=False, grid=False)
        self._focus_first()
        self.settle()

    @property
    def _without_curve(self) -> ProcessRun | None:
        """The run shown, if only its processes are known."""
        return None if self.view is None else without_curve(self.run_id, self.view.snapshot)

    def action_open(self) -> None:
        """Show the charts or the processes of the run under the cursor, or the chosen metric of the grid."""
        processes = self._without_curve
        if self.has_class("grid"):
            self.query_one(MetricGrid).action_open()
        elif processes is not None:
            self.post_message(ProcessRunOpened(processes.key))
        elif self.has_class("list"):
            self.action_list()

    def action_grid(self) -> None:
        """Switch between one metric and small charts of all."""
        self.choose_classes(grid=not self.has_class("grid"), table=False, list=False)
        if self.has_class("grid"):
            grid = self.query_one(MetricGrid)
            grid.chosen = self.chart.metric or ""
            self.focus_now(grid)
        else:
            self._focus_first()
        self.settle()

    def on_metric_grid_opened(self, event: MetricGrid.Opened) -> None:
        """Show the chosen metric large."""
        event.stop()
        self.chart.choose(event.metric)
        self.action_grid()

    def action_filter(self) -> None:
        """Start typing a filter of the runs, or a search in the grid of metrics."""
        if self.has_class("grid") and not self.query_one(RunList).has_focus:
            self.query_one(MetricGrid).start_typing()
            return
        if self.has_class("narrow") and not self.has_class("list"):
            self.action_list()
        runs = self.query_one(RunList)
        runs.focus()
        runs.start_typing()

    def action_back(self) -> None:
        """Clear the filter, else go back to the screen below."""
        runs, grid = self.query_one(RunList), self.query_one(MetricGrid)
        focused = next((pane for pane in (runs, grid) if pane.has_focus), None)
        if focused is not None and focused.filter_text():
            focused.set_filter("")
        elif self.has_class("grid"):
            self.action_grid()
        elif self.has_class("narrow") and self.has_class("list") and not self._list_first:
            self.action_list()
        else:
            super().action_back()

    def action_run(self, by: int) -> None:
        """Show the next or previous run of the list."""
        self.query_one(RunList).choose_next(by)

    # Keys

    def action_x_axis(self) -> None:
        """Switch between time since the start, steps, epochs and the time of day."""
        run = self.find_run(self.view) if self.view is not None else None
        if self.view is not None and run is not None:
            self.chart.next_axis(run, self.view.history)
            self.settle()

    def action_subject(self) -> None:
        """Show something else in the rows of ranks: waiting, step time, or loss."""
        run = self.find_run(self.view) if self.view is not None else None
        if self.view is None or run is None:
            return
        processes = run_of_curve(self.view, run.run_id)
        if processes is not None and len(processes.ranks) > 1 and sum(bool(rank.metrics) for rank in run.ranks) < 2:
            self.process_subject += 1
            self.settle()
            return
        shown = self.subject
        self.subject = first_subject(run, self.view.history, after=shown)
        if self.has_class("grid") or self.has_class("table"):
            key = "g" if self.has_class("grid") else "t"
            self.notify(f"The heat rows are below the charts: {key} returns there.", timeout=4)
        elif len(run.ranks) < 2:
            self.notify("This run has one rank: no other to compare it with.", timeout=4)
        elif self.subject == shown:
            self.notify(f"Of its ranks, only the {shown} is recorded.", timeout=4)
        self.settle()

    def action_table(self) -> None:
        """Switch between full-screen tables and what was there before them."""
        if self.has_class("table"):
            arranged, focused = self._below_table
            self.choose_classes(table=False, **arranged)
            self.focus_now(focused if focused is not None and focused.is_attached else None)
        else:
            self._below_table = {name: self.has_class(name) for name in ("grid", "list")}, self.focused
            self.choose_classes(table=True, grid=False, list=False)
            hidden = ("grid", "use", "runs") if self.has_class("narrow") else ("grid", "use")
            if self.focused is not None and self.focused.id in hidden:
                self.focus_now(self.query_one("#ranks"))
        self.settle()

    def action_stop(self) -> None:
        """Ask whether to stop the run."""
        from gputop.tui.screens.stop import stop_run

        run = self.find_run(self.view) if self.view is not None else None
        if self.view is not None and run is not None:
            self.app.push_screen(stop_run(run, self.view))
