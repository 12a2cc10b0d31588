"""What a run's screen draws: a metric and its GPUs' utilization on one time axis, its ranks, its configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical

from gputop.losses import loss_metric
from gputop.settings.values import Settings
from gputop.snapshot import LIVE_STATES, Run
from gputop.tui.drawing import large_chart, run_numbers
from gputop.tui.drawing.line import Line, Span, clean
from gputop.tui.drawing.prose import wrapped
from gputop.tui.drawing.ranks import STATE_STYLES, draw_ranks
from gputop.tui.drawing.runs.differences import config_lines
from gputop.tui.drawing.runs.listing import ordered
from gputop.tui.drawing.runs.strips import devices_of, first_subject, strip_lines
from gputop.tui.drawing.runs.summary import no_metric_lines, summary_lines
from gputop.tui.drawing.runs.window import Window
from gputop.tui.drawing.untracked.below_chart import process_lines
from gputop.tui.drawing.untracked.head import GONE, no_curve_lines
from gputop.tui.drawing.untracked.pane import ranks_text, run_of_curve
from gputop.tui.screens.base import KeyBar, KeyHint
from gputop.tui.screens.run.chart_keys import ChartScreen
from gputop.tui.screens.run.hints import hints, hints_without_curve
from gputop.tui.screens.stored import StoredRuns
from gputop.tui.state.untracked import TAG, listed_runs, processes_of, without_curve
from gputop.tui.state.view import View
from gputop.tui.widgets.chart import ChartPane
from gputop.tui.widgets.lines import LinesWidget
from gputop.tui.widgets.metric_grid import MetricGrid
from gputop.tui.widgets.ruled import RuledPane
from gputop.tui.widgets.run_list import RunList

USE_TITLE: Line = (Span("On the same axis", "title"),)
CHART_LINES_MIN, CHART_SHARE_LEAST = 10, 0.3
"""A chart keeps this many lines, including its title and legend, and this share of the screen, whatever is below it."""
CONFIG_SHARE_LEAST, LIST_HEAD_LINES = 0.4, 3
"""Share of the side that the configuration may take however many runs there are, and the list's rule, heading and filter."""
RANK_LINES, RANK_LINES_LOW = 11, 6
"""Maximum lines of the table of ranks below the charts, and on a low screen."""


class RunPanes(ChartScreen):
    """Draws the run ``run_id`` and those overlaid on it; classes of the screen say which panes are visible."""

    def __init__(self, run_id: str, view: View | None, change: Callable[[Settings], None] | None) -> None:
        super().__init__(view, change)
        self.run_id = run_id
        self.stored = StoredRuns()
        self.marked: dict[str, str] = {}
        """Ids of the runs whose curves stay while others are chosen -> style of the curve."""
        self.uuids: tuple[str, ...] = ()
        """The UUIDs of the GPUs that the run was last seen on."""
        self.subject: str | None = None
        """What the rows of ranks show; None chooses by what the run records."""
        self.process_subject = 0
        """Which rows of the processes of an untracked run every rank has (``drawing/untracked/below_chart.py``)."""
        self._chart: large_chart.Chart | None = None
        self._use: tuple[Line, ...] = ()
        """Results of ``set_heights``: the chart, whose height it sets, and the lines below it."""

    def compose_body(self) -> ComposeResult:
        """Yield the summary, the charts and the tables."""
        yield LinesWidget(id="summary")
        with Horizontal(id="body"):
            with Vertical(id="side"):
                yield RunList()
                yield RuledPane("Configuration", id="config")
            with Vertical(id="main"):
                yield ChartPane(id="metric")
                yield RuledPane(id="use")
                yield MetricGrid()
                yield RuledPane("Ranks", id="ranks")

    def head_text(self, view: View) -> Line:
        """Show the run's name, rank count and state."""
        run = self.find_run(view)
        if run is None:
            return (Span(self.run_id),)
        processes = processes_of(run.run_id, view.snapshot)
        ranks = f"  {len(run.ranks)} rank" + ("s" if len(run.ranks) != 1 else "")
        ranks = ranks if processes is None else f"  {ranks_text(processes)}"
        state = GONE if run.state == "unheard" and TAG in run.tags else run.state
        return (Span(clean(run.name), "value"), Span(ranks), Span(f"  {state}", STATE_STYLES.get(run.state, "text")))

    @property
    def chosen_run(self) -> Run | None:
        """The run shown."""
        return None if self.view is None else self.find_run(self.view)

    def find_run(self, view: View) -> Run | None:
        """Return the run shown as it is in a view; None if it is not known."""
        return self.stored.find(self.run_id, view)

    def listed_runs(self, view: View) -> tuple[Run, ...]:
        """Return all runs, in the order of the list."""
        return ordered(listed_runs(view.snapshot), self.stored.listed)

    def set_heights(self) -> None:
        """Give the panes around the chart the heights that their lines need."""
        super().set_heights()
        view = self.view
        run = self._take_run(view) if view is not None else None
        if view is not None and run is not None:
            self._share_side(view)
        if view is None or run is None or self.has_class("grid"):
            return
        width, height = self.query_one("#metric", ChartPane).chart_size()
        self._chart = self.chart.chart(self.overlaid(view), view, self.settings, width, height)
        self._use = self._use_lines(run, view, self._chart)
        ranks = self._rank_lines(run)
        room = self.query_one("#main").size.height
        most = room - max(CHART_LINES_MIN, int(room * CHART_SHARE_LEAST)) - ranks
        bare = without_curve(run.run_id, view.snapshot) is not None
        self.query_one("#use").styles.height = 0 if bare else max(0, min(1 + len(self._use), most))
        self.query_one("#ranks").styles.height = "1fr" if self.has_class("table") else ranks

    def _share_side(self, view: View) -> None:
        """Give the configuration next to the charts the lines that it needs, as far as the list of all runs leaves them."""
        config = self.query_one("#config", RuledPane)
        if self.has_class("narrow"):
            config.styles.height = "1fr"
            return
        height = self.query_one("#side").size.height
        wanted = 1 + len(self._config_lines(view, config))
        most = max(int(height * CONFIG_SHARE_LEAST), height - LIST_HEAD_LINES - len(self.listed_runs(view)))
        config.styles.height = min(wanted, most)

    def _take_run(self, view: View) -> Run | None:
        """Return the run to show; without a chosen one, the first of the list."""
        if not self.run_id and (runs := self.listed_runs(view)):
            self.run_id = runs[0].run_id
        processes = processes_of(self.run_id, view.snapshot)
        if processes is not None and processes.key == self.run_id and processes.run_id is not None:
            self.run_id = processes.run_id  # its curve was found meanwhile
        run = self.find_run(view)
        if run is not None:
            self.uuids = run_numbers.device_uuids(run, view.snapshot) or self.uuids
            self.chart.take_names(self.run_id, view.history)
            self.chart.take_axis(run, view.history)
        return run

    def draw(self, view: View) -> None:
        """Draw everything."""
        run = self.find_run(view)
        self._draw_list(view)
        self.query_one(KeyBar).set_hints(self.named(self._hints()))
        if run is None:
            text = "This run is no longer listed." if self.run_id else "No run yet: l launches a demo."
            gone = wrapped(text, 60, "warn")
            self.query_one("#metric", ChartPane).show_words(gone, title=(Span("Run", "title"),))
            return
        self.query_one("#summary", LinesWidget).set_lines(summary_lines(run, view, self.size.width))
        self._draw_config(view)
        if self.has_class("grid"):
            self._draw_grid(view)
            return
        self._draw_metric(run, view)
        lines = self._use or ((Span("Only the metrics of this run are known.", "dim"),),)
        self.query_one("#use", RuledPane).set_content(lines, title=USE_TITLE)
        self._draw_ranks(run, view)

    def _draw_grid(self, view: View) -> None:
        runs = self.overlaid(view)
        self.query_one(MetricGrid).set_metrics(
            self.chart.names, lambda name, width, height: self.chart.small(name, runs, view, self.settings, width, height)
        )

    def overlaid(self, view: View) -> list[tuple[Run, str]]:
        """Return the run on the screen and the marked ones, each with the style of its curve."""
        ids = dict.fromkeys((self.run_id, *self.marked))
        return [(run, self.marked.get(run_id, "accent")) for run_id in ids if (run := self.stored.find(run_id, view))]

    def _draw_metric(self, run: Run, view: View) -> None:
        pane = self.query_one("#metric", ChartPane)
        title = (Span(clean(self.chart.metric or "metrics"), "title"),)
        if self._chart is None:
            processes, width = without_curve(run.run_id, view.snapshot), pane.inner_size.width
            words = no_metric_lines(run, width) if processes is None else no_curve_lines(processes, width)
            pane.show_words(words, title=title)
            return
        ranks = len(view.history.metric(self.run_id, self.chart.metric or ""))
        pane.show_chart(
            replace(self._chart, height=pane.chart_size()[1]),
            title=title,
            subtitle=self.chart.description(self.settings),
            footer=self.chart.hidden_ranks(ranks, self.settings),
        )

    def _draw_list(self, view: View) -> None:
        runs = self.query_one(RunList)
        if runs.display and runs.size:
            runs.set_runs(
                self.listed_runs(view), self.run_id, self.marked, view.snapshot.time, complete=self.stored.is_complete(view)
            )

    def _use_lines(self, run: Run, view: View, chart: large_chart.Chart | None) -> tuple[Line, ...]:
        """Return what belongs to the run along the chart's axis."""
        layer = self.chart.layer(run, view)
        devices = devices_of(run, view, self.uuids)
        lines: tuple[Line, ...] = ()
        if chart is not None and layer is not None:
            self.subject = self.subject or first_subject(run, view.history)
            lines = strip_lines(layer, chart, view, devices, self.subject, loss_metric(view.history.metrics(run.run_id)))
            processes = run_of_curve(view, run.run_id)
            if processes is not None:
                lines = (*lines, *process_lines(processes, layer, chart, view, self.process_subject))
        if not devices and not self.has_class("small") and self.stored.gpus_question(run.run_id, view) is None:
            text = "No GPU of this machine is known to belong to this run, and none was recorded with it."
            lines = (*lines, *wrapped(text, max(20, self.query_one("#use", RuledPane).inner_size.width), "dim"))
        return lines

    def _rank_lines(self, run: Run) -> int:
        """Return how many lines the table of ranks takes below the charts."""
        if self.has_class("small"):
            return 0
        return min(RANK_LINES_LOW if self.has_class("low") else RANK_LINES, 2 + len(run.ranks))

    def _draw_ranks(self, run: Run, view: View) -> None:
        pane = self.query_one("#ranks", RuledPane)
        pane.header_lines = 1
        lines = draw_ranks(
            run,
            view.snapshot,
            max(20, pane.inner_size.width),
            metric=self.chart.metric or "",
            marked=view.involved_pids,
            ascii_only=self.settings.ascii,
        )
        pane.set_content(lines)

    def _draw_config(self, view: View) -> None:
        pane = self.query_one("#config", RuledPane)
        runs = self.overlaid(view)
        title = "Configuration" if len(runs) == 1 else "Configuration, differences first"
        pane.set_content(self._config_lines(view, pane), title=(Span(title, "title"),))

    def _config_lines(self, view: View, pane: RuledPane) -> tuple[Line, ...]:
        return tuple(config_lines(self.overlaid(view), max(20, pane.inner_size.width), self.settings.ascii))

    def _hints(self) -> tuple[KeyHint, ...]:
        table, grid, narrow, listed = (self.has_class(name) for name in ("table", "grid", "narrow", "list"))
        run = self.chosen_run
        if run is not None and self.view is not None and without_curve(run.run_id, self.view.snapshot) is not None:
            return hints_without_curve(listed or not narrow)
        live = run is not None and run.state in LIVE_STATES
        zoomed = self.chart.window != Window()
        return hints(table=table, grid=grid, narrow=narrow, listed=listed, zoomed=zoomed, live=live)
