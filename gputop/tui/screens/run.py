"""The screen of one run: a metric and its GPUs' utilization on one time axis, its ranks, its configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal

from gputop import units
from gputop.history.series import X_MAX
from gputop.history.smoothing import next_smoothing
from gputop.snapshot import LIVE_STATES, Run
from gputop.tui.drawing import large_chart, run_numbers, training
from gputop.tui.drawing.line import Line, Span, clean
from gputop.tui.drawing.line import width as line_width
from gputop.tui.drawing.prose import pairs, wrapped
from gputop.tui.drawing.ranks import STATE_STYLES, draw_ranks
from gputop.tui.screens.base import KeyHint, SubScreen
from gputop.tui.state.view import Settings, View
from gputop.tui.widgets.chart import ChartPane
from gputop.tui.widgets.lines import LinesWidget, Pane

_MAX_CURVES = 16


class RunScreen(SubScreen):
    """Shows the run ``run_id``; calls ``change`` when a key changes how charts are drawn (the app's settings)."""

    NAME = "run"
    DEFAULT_CSS = """
    RunScreen #summary { height: 2; }
    RunScreen #metric { height: 2fr; }
    RunScreen #use { height: 1fr; }
    RunScreen #below { height: 12; }
    RunScreen.low #below { height: 7; }
    RunScreen.low #use { height: 8; }
    RunScreen.small #below { display: none; }
    RunScreen.table #below { display: block; height: 1fr; }
    RunScreen.table ChartPane { display: none; }
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
        Binding("k,f9", "stop", show=False),
    ]
    HINTS = (
        KeyHint("Left/Right", "metric", "screen.metric(1)"),
        KeyHint("y", "log", "screen.log_axis"),
        KeyHint("[ ]", "smooth", "screen.smooth(1)"),
        KeyHint("r", "ranks", "screen.per_rank"),
        KeyHint("x", "steps", "screen.x_axis"),
        KeyHint("t", "table", "screen.table"),
        KeyHint("w", "where", "app.where"),
        KeyHint("k", "stop", "screen.stop"),
    )

    def __init__(self, run_id: str, view: View | None = None, change: Callable[[Settings], None] | None = None) -> None:
        super().__init__(view)
        self.run_id = run_id
        self.change = change
        self.settings = view.settings if view else Settings()
        self.metric_name: str | None = None
        self.x_kind = "time"
        self._own: dict[str, Any] | None = None
        """Chart settings that a key changed on this screen; used only when there is no ``change`` to report them to."""
        self._last: Run | None = None
        self._uuids: tuple[str, ...] = ()

    def compose_body(self) -> ComposeResult:
        """Yield the summary, the charts and the tables."""
        yield LinesWidget(id="summary")
        yield ChartPane(id="metric")
        yield ChartPane(id="use")
        with Horizontal(id="below"):
            yield Pane("Ranks", id="ranks")
            yield Pane("Configuration", id="config")

    def head_text(self, view: View) -> Line:
        """Show the run's name, rank count and state."""
        run = self._run(view)
        if run is None:
            return (Span(self.run_id),)
        ranks = f"  {len(run.ranks)} rank" + ("s" if len(run.ranks) != 1 else "")
        return (Span(clean(run.name), "value"), Span(ranks), Span(f"  {run.state}", STATE_STYLES.get(run.state, "text")))

    @property
    def chosen_run(self) -> Run | None:
        """The run shown."""
        return self._last

    def _run(self, view: View) -> Run | None:
        now = next((run for run in view.snapshot.runs if run.run_id == self.run_id), None)
        self._last = now or self._last
        return self._last

    def show(self, view: View) -> None:
        """Take the newest view and its chart settings."""
        if self.change is not None or self._own is None:
            self.settings = view.settings
        else:
            self.settings = replace(view.settings, **self._own)
        super().show(view)

    def draw(self, view: View) -> None:
        """Draw everything."""
        run = self._run(view)
        if run is None:
            gone = wrapped("This run is not listed any more.", 60, "warn")
            self.query_one("#metric", ChartPane).show_words(gone, title=(Span("Run", "title"),))
            return
        self._uuids = run_numbers.device_uuids(run, view.snapshot) or self._uuids
        names = self.metric_names(view)
        if self.metric_name not in names:
            self.metric_name = names[0] if names else None
        self.query_one("#summary", LinesWidget).set_lines(_summary(run, view, self.size.width))
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
            pane.show_words(_no_metric_lines(run, pane.inner_size.width), title=title)
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
            pane.show_words(wrapped(text, max(20, pane.inner_size.width), "dim"), title=title)
            return
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
        pane = self.query_one("#ranks", Pane)
        pane.header_lines = 1
        pane.set_content(
            draw_ranks(
                run,
                view.snapshot,
                max(20, pane.inner_size.width),
                metric=self.metric_name or "",
                marked=view.involved_pids,
                ascii_only=self.settings.ascii,
            )
        )

    def _draw_config(self, run: Run) -> None:
        pane = self.query_one("#config", Pane)
        width = max(20, pane.inner_size.width)
        rows = [("run id", run.run_id)]
        if run.job_id:
            rows.append(("job", run.job_id))
        if run.command:
            rows.append(("command", " ".join(run.command)))
        pane.set_content(pairs([*rows, *run_numbers.config_rows(run.config)], width, indent=""))

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

        if self.view is not None and self._last is not None:
            open_stop(self.app, target_of_run(self._last, self.view), self.view)


def _summary(run: Run, view: View, width: int) -> list[Line]:
    step, total = run.step, run_numbers.total_steps(run)
    loss = run_numbers.loss_name(run) or "loss"
    since = run_numbers.not_finite_since(run, view.history)
    parts = [("step", _steps(step, total))]
    if step is not None and total:
        parts.append(("done", units.percent(100 * step / total)))
    left = run_numbers.seconds_left(run, view.history)
    if left is not None:
        parts.append(("left", units.duration(left)))
    if run.created_at is not None:
        parts.append(("so far", units.duration(max(0.0, (run.ended_at or view.snapshot.time) - run.created_at))))
    speed = run_numbers.speed(run)
    if speed is not None:
        parts.append((speed[0].replace("_per_s", "/s"), units.count(speed[1])))
    for name in ("epoch", "lr", loss):
        value = run_numbers.latest(run, name)
        if value is not None:
            parts.append((name, units.metric(value) + (f" since step {units.count(since)}" if name == loss and since else "")))
    rows: list[Line] = [(Span(" "),)]
    for name, text in parts:
        shown = (Span(f"{name} ", "dim"), Span(text, "bad" if name == loss and since is not None else "value"), Span("   "))
        if len(rows) == 1 and line_width(rows[0]) + line_width(shown) > width:
            rows.append((Span(" "),))
        rows[-1] = (*rows[-1], *shown)
    if len(rows) == 1:
        rows.append((Span(f" {clean(' '.join(run.command))}" if run.command else "", "dim"),))
    return rows


def _steps(step: int | None, total: int | None) -> str:
    """Return "1 240/5 000", or how many steps there will be before the first is known; "N/A" if that is unknown too."""
    if step is None:
        return f"none of {units.count(total)} yet" if total else units.UNKNOWN
    return units.count(step) + (f"/{units.count(total)}" if total else "")


def _no_metric_lines(run: Run, width: int) -> tuple[Line, ...]:
    text = "No metric yet. " + (
        "The run is starting; the first values come with its first steps."
        if run.state == "starting"
        else "A script logs one with gputop.log(loss=loss); gputop run -- … finds the loss by itself."
    )
    return wrapped(text, max(20, width), "dim")


def _hidden_ranks(total: int, shown: int) -> Line:
    if shown >= total:
        return ()
    return (Span(f"ranks 0-{shown - 1} of {total}; r: mean and spread of all", "warn"),)
