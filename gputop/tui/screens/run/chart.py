"""What the chart of a run's screen shows: which metric, of which runs, along which axis, and which part of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gputop.history.history import History
from gputop.history.series import X_MAX
from gputop.losses import AUTOMATIC_PREFIX, is_of_evaluation, loss_metric
from gputop.settings.values import Settings
from gputop.snapshot import LIVE_STATES, Run
from gputop.tui.drawing import large_chart
from gputop.tui.drawing.charts.axis import first_step
from gputop.tui.drawing.large_chart import Chart
from gputop.tui.drawing.line import Line, Span
from gputop.tui.drawing.runs.notes import notes_of
from gputop.tui.drawing.runs.overlay import Layer, curves_of, layers_of, span_of
from gputop.tui.drawing.runs.positions import X_KINDS, X_WORDS, first_kind, positions
from gputop.tui.drawing.runs.window import Window
from gputop.tui.state.view import View

MAX_CURVES = 16
"""More ranks than this are drawn as their mean and spread."""


class RunChart:
    """The chosen metric, axis and window; ``chart`` draws nothing, it says what to draw."""

    def __init__(self) -> None:
        self.metric: str | None = None
        self.chosen = False
        """Whether the user chose the metric; before, it is the loss as soon as there is one."""
        self.x_kind = "time"
        self._axis_chosen = False
        """Whether the user chose the axis; before, each run has the one that shows its curve."""
        self._axis_of: str | None = None
        """The run for which the axis was found."""
        self.window = Window()
        self.whole: tuple[float, float] | None = None
        """The first and the last x of the newest drawing."""
        self.columns = 1
        self.names: tuple[str, ...] = ()

    def take_names(self, run_id: str, history: History) -> None:
        """Take the run's metrics, the loss first, then its evaluations; another run keeps the chosen metric if it has it."""
        known = set(names := history.metrics(run_id))
        first = loss_metric(names)
        # An automatic value is used if a rank logs none of its own (``History.metric``).
        shown = (name for name in names if (own := name.removeprefix(AUTOMATIC_PREFIX)) == name or own not in known)
        self.names = tuple(sorted(shown, key=lambda name: (name != first, not is_of_evaluation(name))))
        if not self.chosen or self.metric not in self.names:
            self.metric = self.names[0] if self.names else None

    def take_axis(self, run: Run, history: History) -> None:
        """Find the axis on which the run's curve is visible, once for each run: an axis that moved by itself would confuse."""
        if self._axis_chosen or self._axis_of == run.run_id or self.metric is None:
            return
        found = first_kind(run, self.metric, history)
        self._axis_of = run.run_id if found is not None else None
        if (kind := found or "time") != self.x_kind:
            self.x_kind, self.window = kind, Window()

    def choose(self, metric: str) -> None:
        """Show this metric, also of other runs that have it."""
        self.metric, self.chosen = metric, True

    def chart(self, runs: Sequence[tuple[Run, str]], view: View, settings: Settings, width: int, height: int) -> Chart | None:
        """Return the chart of these runs, the one on the screen first, each with its curve's style; None without values."""
        layers = layers_of(runs, self.metric, self.x_kind, view.history) if self.metric is not None else []
        self.whole = self._whole(layers, view)
        self.columns = max(1, width - large_chart.LABEL_COLUMNS - 1)
        chart = self._chart(layers, self.whole, settings, width, height)
        if chart is None:
            return None
        return replace(chart, notes=notes_of(layers, view, chart.x_start, chart.x_end, self.columns))

    def small(
        self, metric: str, runs: Sequence[tuple[Run, str]], view: View, settings: Settings, width: int, height: int
    ) -> Chart | None:
        """Return the chart of one of many metrics, along the same axis."""
        layers = layers_of(runs, metric, self.x_kind, view.history)
        return self._chart(layers, self._whole(layers, view), settings, width, height)

    def _chart(
        self, layers: list[Layer], whole: tuple[float, float] | None, settings: Settings, width: int, height: int
    ) -> Chart | None:
        if whole is None:
            return None
        if settings.per_rank and len(layers) == 1:
            held = layers[0]
            layers = [Layer(held.run, dict(sorted(held.series.items())[:MAX_CURVES]), held.where, held.style, held.marker)]
        start, end = self.window.visible(whole)
        curves, marks = curves_of(
            layers,
            start,
            end,
            large_chart.columns_for(width),
            per_rank=settings.per_rank,
            smoothing=settings.smoothing,
        )
        return Chart(
            width,
            height,
            curves,
            start,
            end,
            self.x_kind,
            marks,
            log=settings.log_axis,
            ascii=settings.ascii,
            plain=not settings.color,
            cursor=self.window.cursor if self.window.cursor is not None and start <= self.window.cursor <= end else None,
        )

    def layer(self, run: Run, view: View) -> Layer | None:
        """Return the run on the screen along the axis; None without values."""
        layers = layers_of([(run, "accent")], self.metric, self.x_kind, view.history) if self.metric is not None else []
        return layers[0] if layers else None

    def _whole(self, layers: Sequence[Layer], view: View) -> tuple[float, float] | None:
        span = span_of(layers)
        if span is None:
            return None
        start, end = span
        if self.x_kind == "time":
            start = first_step(start, end)
        if self.x_kind in ("time", "clock") and abs(view.snapshot.time) <= X_MAX:
            now = [layer.where.to_x(view.snapshot.time) for layer in layers if layer.run.state in LIVE_STATES]
            end = max([end, *now])
        return start, end

    def hidden_ranks(self, layers: int, settings: Settings) -> Line:
        """Return a note if only some of the ranks are drawn because there are too many."""
        if not settings.per_rank or layers <= MAX_CURVES:
            return ()
        return (Span(f"ranks 0-{MAX_CURVES - 1} of {layers}; r: mean and spread of all", "warn"),)

    def description(self, settings: Settings) -> Line:
        """Return what is drawn and how, in words; of a part of it, which has more to say, only what is not the default."""
        number = self.names.index(self.metric) + 1 if self.metric in self.names else 0
        zoomed = ["zoomed (0: whole)"] if self.window.part is not None else []  # first: if it is narrow, the end is cut
        parts = [*zoomed, f"metric {number} of {len(self.names)}"]
        if settings.log_axis or not zoomed:
            parts.append("log" if settings.log_axis else "linear")
        if settings.smoothing or not zoomed:
            parts.append(f"smoothing {settings.smoothing:g}" if settings.smoothing else "not smoothed")
        parts.append(f"over {X_WORDS[self.x_kind]}")
        return (Span(", ".join(parts), "dim"),)

    def next_metric(self, by: int) -> None:
        """Choose the next or previous metric."""
        if self.names:
            held = self.names.index(self.metric) if self.metric in self.names else 0
            self.choose(self.names[(held + by) % len(self.names)])

    def next_axis(self, run: Run, history: History) -> None:
        """Choose the next axis for which the run has data, and show all of it."""
        held = X_KINDS.index(self.x_kind)
        others = (X_KINDS[(held + more) % len(X_KINDS)] for more in range(1, len(X_KINDS)))
        self._axis_chosen = True
        self.x_kind = next((kind for kind in others if positions(kind, run, history) is not None), self.x_kind)
        self.window = Window()
