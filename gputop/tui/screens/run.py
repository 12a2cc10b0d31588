"""The screen of one run: a metric and its GPUs' utilization on one time axis, its ranks, its configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical

from gputop.history.series import X_MAX
from gputop.history.smoothing import next_smoothing
from gputop.run_questions import Answer, RunsAnswer
from gputop.snapshot import LIVE_STATES, Run
from gputop.tui.drawing import large_chart, run_numbers, training
from gputop.tui.drawing.line import Line, Span, clean
from gputop.tui.drawing.prose import pairs, wrapped
from gputop.tui.drawing.ranks import STATE_STYLES, draw_ranks
from gputop.tui.drawing.runs.listing import ordered
from gputop.tui.drawing.runs.summary import no_metric_lines, summary_lines
from gputop.tui.screens.base import KeyBar, KeyHint, SubScreen
from gputop.tui.screens.stored import StoredRuns
from gputop.tui.state.view import Settings, View
from gputop.tui.widgets.chart import ChartPane
from gputop.tui.widgets.lines import LinesWidget
from gputop.tui.widgets.requests import RunsAsked
from gputop.tui.widgets.ruled import RuledPane
from gputop.tui.widgets.run_list import RunList

_MAX_CURVES = 16
RANK_LINES, RANK_LINES_LOW = 11, 6
"""Most lines of the table of ranks below the charts, and on a low screen."""
WIDE_COLUMNS = 120
"""From this width on, the list of runs stands beside the charts."""
ASK_EVERY_S = 3.0
"""A question or its answer may get lost: the sampler answers only the newest question."""
LIST_HINTS = (
    KeyHint("Up/Down", "choose"),
    KeyHint("Enter", "charts", "screen.open"),
    KeyHint("/", "filter", "screen.filter"),
    KeyHint("t", "table", "screen.table"),
    KeyHint("k", "stop", "screen.stop"),
)


class RunScreen(SubScreen):
    """Shows the run ``run_id``; calls ``change`` when a key changes how charts are drawn (the app's settings)."""

    NAME = "run"
    DEFAULT_CSS = """
    RunScreen #summary { height: 2; }
    RunScreen #side { width: 38; }
    RunScreen #config { height: 1fr; max-height: 40%; }
    RunScreen #metric { height: 2fr; }
    RunScreen #use { height: 1fr; }
    RunScreen #use.empty { height: 3; }
    RunScreen.low #use { height: 7; }
    RunScreen.small #ranks { display: none; }
    RunScreen.table #ranks { display: block; }
    RunScreen.table ChartPane { display: none; }
    RunScreen.narrow #side { display: none; }
    RunScreen.narrow.list #side { display: block; width: 1fr; }
    RunScreen.narrow.list #main { display: none; }
    RunScreen.narrow.list #config { display: none; }
    RunScreen.narrow.table #side { display: block; width: 1fr; }
    RunScreen.narrow.table #runs { display: none; }
    RunScreen.narrow.table #config { max-height: 100%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "log_axis", show=False),
        Binding("left_square_bracket", "smooth(-1)", show=False),
        Binding("right_square_bracket", "smooth(1)", show=False),
        Binding("r", "per_rank", show=False),
        Binding("x", "x_axis", show=False),
        Binding("left", "metric(-1)", show=False),
        Binding("right", "metric(1)", show=False),
        Binding("t", "table", show=False),
        Binding("o", "list", show=False),
        Binding("slash", "filter", show=False),
        Binding("n", "run(1)", show=False),
        Binding("N", "run(-1)", show=False),
        Binding("k,f9", "stop", show=False),
        Binding("enter", "open", show=False),
    ]
    HINTS = (
        KeyHint("o", "runs", "screen.list"),
        KeyHint("/", "filter", "screen.filter"),
        KeyHint("Left/Right", "metric", "screen.metric(1)"),
        KeyHint("y", "log", "screen.log_axis"),
        KeyHint("[ ]", "smooth", "screen.smooth(1)"),
        KeyHint("r", "ranks", "screen.per_rank"),
        KeyHint("x", "steps", "screen.x_axis"),
        KeyHint("t", "table", "screen.table"),
        KeyHint("k", "stop", "screen.stop"),
    )

    def __init__(
        self,
        run_id: str,
        view: View | None = None,
        change: Callable[[Settings], None] | None = None,
        *,
        listed: bool = False,
    ) -> None:
        super().__init__(view)
        self.run_id = run_id
        self.stored = StoredRuns()
        self.set_class(listed, "list")
        self._list_first = listed
        self.change = change
        self.settings = view.settings if view else Settings()
        self.metric_name: str | None = None
        self.x_kind = "time"
        self._own: dict[str, Any] | None = None
        """Chart settings that a key changed on this screen; used only when there is no ``change`` to report them to."""
        self._uuids: tuple[str, ...] = ()

    def compose_body(self) -> ComposeResult:
        """Yield the summary, the charts and the tables."""
        yield LinesWidget(id="summary")
        with Horizontal(id="body"):
            with Vertical(id="side"):
                yield RunList()
                yield RuledPane("Configuration", id="config")
            with Vertical(id="main"):
                yield ChartPane(id="metric")
                yield ChartPane(id="use")
                yield RuledPane("Ranks", id="ranks")

    def on_mount(self) -> None:
        """Ask for the stored runs, and again while an answer is missing."""
        super().on_mount()
        self._ask()
        self.set_interval(ASK_EVERY_S, self._ask)

    def show(self, view: View) -> None:
        """Take the newest view and its chart settings."""
        first = self.view is None
        if self.change is not None or self._own is None:
            self.settings = view.settings
        else:
            self.settings = replace(view.settings, **self._own)
        super().show(view)
        if first:
            self._ask()

    def on_resize(self, event: events.Resize) -> None:
        """Put the list beside the charts, or in their place."""
        self.set_class(event.size.width < WIDE_COLUMNS, "narrow")
        super().on_resize(event)
        self._focus_first()

    def _focus_first(self) -> None:
        """Focus the list where it is visible."""
        visible = not self.has_class("narrow") or self.has_class("list")
        runs = self.query_one(RunList)
        if visible and not runs.has_focus:
            runs.focus()
        elif not visible and runs.has_focus:
            self.set_focus(None)

    def _ask(self) -> None:
        if self.is_current and self.view is not None:
            question = self.stored.question((self.run_id,), self.view)
            if question is not None:
                self.post_message(RunsAsked(question))

    def take_answer(self, answer: Answer) -> None:
        """Take in stored runs."""
        if isinstance(answer, RunsAnswer) and self.view is not None:
            self.stored.take(answer, self.view.history)
            if answer.problem:
                self.app.notify(answer.problem, severity="warning")
            self._ask()
            self.show(self.view)

    def head_text(self, view: View) -> Line:
        """Show the run's name, rank count and state."""
        run = self._run(view)
        if run is None:
            return (Span(self.run_id),)
        ranks = f"  {len(run.ranks)} rank" + ("s" if len(run.ranks) != 1 else "")
        return (Span(clean(run.name), "value"), Span(ranks), Span(f"  {run.state}", STATE_STYLES.get(run.state, "text")))

    def _run(self, view: View) -> Run | None:
        return self.stored.find(self.run_id, view)

    def _runs(self, view: View) -> tuple[Run, ...]:
        return ordered(view.snapshot.runs, self.stored.listed)

    def draw(self, view: View) -> None:
        """Draw everything."""
        run = self._run(view)
        if run is None and not self.run_id and (runs := self._runs(view)):
            run = runs[0]
            self.run_id = run.run_id
        self._draw_list(view)
        self.query_one(KeyBar).set_hints((KeyHint("Esc", "back", "screen.back"), *self._hints()))
        if run is None:
            text = "This run is not listed any more." if self.run_id else "No run yet: l launches a demo."
            gone = wrapped(text, 60, "warn")
            self.query_one("#metric", ChartPane).show_words(gone, title=(Span("Run", "title"),))
            return
        self._uuids = run_numbers.device_uuids(run, view.snapshot) or self._uuids
        names = self.metric_names(view)
        if self.metric_name not in names:
            self.metric_name = names[0] if names else None
        self.query_one("#summary", LinesWidget).set_lines(summary_lines(run, view, self.size.width))
        span = self._draw_metric(run, view, names)
        self._draw_use(view, span)
        self._draw_ranks(run, view)
        self._draw_config(run)

    def metric_names(self, view: View) -> tuple[str, ...]:
        """Return the run's metrics, the loss first."""
        names = view.history.metrics(self.run_id)
        first = training.loss_name(names)
        return tuple(sorted(names, key=lambda name: name != first))

    def _draw_metric(self, run: Run, view: View, names: tuple[str, ...]) -> tuple[float, float] | None:
        pane = self.query_one("#metric", ChartPane)
        title = (Span(clean(self.metric_name or "metrics"), "title"),)
        series = view.history.metric(self.run_id, self.metric_name) if self.metric_name else {}
        span = large_chart.span_of(series, self.x_kind)
        if span is None:
            pane.show_words(no_metric_lines(run, pane.inner_size.width), title=title)
            return None
        if self.x_kind == "time" and run.state in LIVE_STATES and abs(view.snapshot.time) <= X_MAX:
            span = (span[0], max(span[1], view.snapshot.time))
        width, height = pane.chart_size()
        shown = dict(sorted(series.items())[:_MAX_CURVES]) if self.settings.per_rank else series
        curves, marks = large_chart.curves_of(
            shown,
            x_kind=self.x_kind,
            start=span[0],
            end=span[1],
            columns=large_chart.columns_for(width),
            per_rank=self.settings.per_rank,
            smoothing=self.settings.smoothing,
        )
        chart = large_chart.Chart(
            width,
            height,
            curves,
            span[0],
            span[1],
            self.x_kind,
            marks,
            log=self.settings.log_axis,
            ascii=self.settings.ascii,
            plain=not self.settings.color,
        )
        pane.show_chart(
            chart, title=title, subtitle=self._chart_description(names), footer=_hidden_ranks(len(series), len(shown))
        )
        return span

    def _chart_description(self, names: tuple[str, ...]) -> Line:
        number = names.index(self.metric_name) + 1 if self.metric_name in names else 0
        parts = [f"metric {number} of {len(names)}", "log" if self.settings.log_axis else "linear"]
        parts.append(f"smoothing {self.settings.smoothing:g}" if self.settings.smoothing else "not smoothed")
        parts.append(f"over {'time' if self.x_kind == 'time' else 'steps'}")
        return (Span(", ".join(parts), "dim"),)

    def _draw_list(self, view: View) -> None:
        runs = self.query_one(RunList)
        if runs.display and runs.size:
            runs.set_runs(self._runs(view), self.run_id, {}, view.snapshot.time, complete=self.stored.is_complete(view))

    def _draw_use(self, view: View, span: tuple[float, float] | None) -> None:
        pane = self.query_one("#use", ChartPane)
        title: Line = (Span("GPU utilization of this run's GPUs", "title"),)
        indices = {device.uuid: device.index for device in view.snapshot.devices}
        series = [
            (indices[uuid], found)
            for uuid in self._uuids
            if uuid in indices and (found := view.history.device(uuid, "utilization_percent")) is not None and found.buckets
        ]
        if not series:
            text = "No GPU of this machine is known to belong to this run: its processes have ended, or run elsewhere."
            pane.add_class("empty")
            pane.show_words(wrapped(text, max(20, pane.inner_size.width), "dim"), title=title)
            return
        pane.remove_class("empty")
        if self.x_kind == "step" or span is None:
            spans = [seen for _, item in series if (seen := item.span()) is not None]
            span = (min(start for start, _ in spans), max(end for _, end in spans))
            title = (*title, Span(" (over time)", "dim"))
        width, height = pane.chart_size()
        columns = max(1, width - large_chart.LABEL_COLUMNS - 1)
        per_device = len(series) <= 8
        curves = large_chart.device_curves(series, span[0], span[1], columns, per_device)
        chart = large_chart.Chart(
            width,
            height,
            curves,
            span[0],
            span[1],
            y_range=(0.0, 100.0),
            unit="%",
            ascii=self.settings.ascii,
            plain=not self.settings.color,
        )
        pane.show_chart(chart, title=title)

    def _draw_ranks(self, run: Run, view: View) -> None:
        pane = self.query_one("#ranks", RuledPane)
        pane.header_lines = 1
        lines = draw_ranks(
            run,
            view.snapshot,
            max(20, pane.inner_size.width),
            metric=self.metric_name or "",
            marked=view.involved_pids,
            ascii_only=self.settings.ascii,
        )
        most = RANK_LINES_LOW if self.has_class("low") else RANK_LINES
        pane.styles.height = "1fr" if self.has_class("table") else min(most, 1 + len(lines))
        pane.set_content(lines)

    def _draw_config(self, run: Run) -> None:
        pane = self.query_one("#config", RuledPane)
        width = max(20, pane.inner_size.width)
        rows = [("run id", run.run_id)]
        if run.job_id:
            rows.append(("job", run.job_id))
        if run.command:
            rows.append(("command", " ".join(run.command)))
        pane.set_content(pairs([*rows, *run_numbers.config_rows(run.config)], width, indent=""))

    # The list

    def _hints(self) -> tuple[KeyHint, ...]:
        if not self.has_class("narrow"):
            return (KeyHint("Up/Down", "run"), *self.HINTS[1:])
        return LIST_HINTS if self.has_class("list") else self.HINTS

    def on_run_list_chosen(self, event: RunList.Chosen) -> None:
        """Show the chosen run."""
        event.stop()
        self.run_id = event.run_id
        self._uuids = ()
        if event.opened and self.has_class("list"):
            self.action_list()
        self._ask()
        if self.view is not None:
            self.show(self.view)

    def action_list(self) -> None:
        """Switch between the list and the charts, where there is no room for both."""
        self.toggle_class("list")
        self.remove_class("table")
        self._focus_first()
        self.draw_after_layout()

    def action_open(self) -> None:
        """Show the charts of the run under the cursor."""
        if self.has_class("list"):
            self.action_list()

    def action_filter(self) -> None:
        """Start typing a filter of the runs."""
        if self.has_class("narrow") and not self.has_class("list"):
            self.action_list()
        runs = self.query_one(RunList)
        runs.focus()
        runs.start_typing()

    def action_back(self) -> None:
        """Clear the filter, else go back to the screen below."""
        runs = self.query_one(RunList)
        if runs.filter_text() and runs.has_focus:
            runs.set_filter("")
        elif self.has_class("narrow") and self.has_class("list") and not self._list_first:
            self.action_list()
        else:
            super().action_back()

    def action_run(self, by: int) -> None:
        """Show the next or previous run of the list."""
        self.query_one(RunList).choose_next(by)

    # Keys

    def _change(self, **changes: Any) -> None:
        self.settings = replace(self.settings, **changes)
        self._own = {name: getattr(self.settings, name) for name in ("log_axis", "smoothing", "per_rank")}
        if self.change is not None:
            self.change(self.settings)
        if self.view is not None:
            self.draw(self.view)

    def action_log_axis(self) -> None:
        """Switch between a linear and a logarithmic y axis."""
        self._change(log_axis=not self.settings.log_axis)

    def action_smooth(self, by: int) -> None:
        """Smooth the curves more or less."""
        self._change(smoothing=next_smoothing(self.settings.smoothing, by))

    def action_per_rank(self) -> None:
        """Switch between one curve per rank, and mean and spread."""
        self._change(per_rank=not self.settings.per_rank)

    def action_x_axis(self) -> None:
        """Switch between time and steps."""
        self.x_kind = "step" if self.x_kind == "time" else "time"
        if self.view is not None:
            self.draw(self.view)

    def action_metric(self, by: int) -> None:
        """Show the next or previous metric."""
        if self.view is None:
            return
        names = self.metric_names(self.view)
        if names:
            at = names.index(self.metric_name) if self.metric_name in names else 0
            self.metric_name = names[(at + by) % len(names)]
            self.draw(self.view)

    def action_table(self) -> None:
        """Switch between the charts and full-screen tables."""
        self.toggle_class("table")
        self.draw_after_layout()

    def action_stop(self) -> None:
        """Ask whether to stop the run."""
        from gputop.tui.screens.stop import open_stop, target_of_run

        run = self._run(self.view) if self.view is not None else None
        if self.view is not None and run is not None:
            open_stop(self.app, target_of_run(run, self.view), self.view)


def _hidden_ranks(total: int, shown: int) -> Line:
    if shown >= total:
        return ()
    return (Span(f"ranks 0-{shown - 1} of {total}; r: mean and spread of all", "warn"),)
