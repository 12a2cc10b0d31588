"""A screen with one large chart, which keys and the mouse read, zoom and redraw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from textual.binding import Binding, BindingType

from gputop.history.smoothing import next_smoothing
from gputop.settings.values import Settings
from gputop.tui.drawing.runs.window import Window
from gputop.tui.screens.base import SubScreen
from gputop.tui.screens.run.chart import RunChart
from gputop.tui.state.view import View
from gputop.tui.widgets.chart import ChartPane


class ChartScreen(SubScreen):
    """Holds the chart and how it is drawn; calls ``change`` when a key changes that (the app's settings)."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("Y", "log_axis", "logarithmic axis", show=False),
        Binding("left_square_bracket", "smooth(-1)", "less smoothing", show=False),
        Binding("right_square_bracket", "smooth(1)", "more smoothing", show=False),
        Binding("r", "per_rank", "one curve per rank, or mean and spread", show=False),
        Binding("left", "read(-1)", "read the values to the left", show=False),
        Binding("right", "read(1)", "read the values to the right", show=False),
        Binding("shift+left", "read(-10)", "read ten columns to the left", show=False),
        Binding("shift+right", "read(10)", "read ten columns to the right", show=False),
        Binding("plus,equals_sign", "zoom(0.5)", "zoom in", show=False),
        Binding("minus", "zoom(2.0)", "zoom out", show=False),
        Binding("0", "whole", "the whole axis", show=False),
        Binding("M", "metric(-1)", "previous metric", show=False),
        Binding("m", "metric(1)", "next metric", show=False),
    ]

    def __init__(self, view: View | None, change: Callable[[Settings], None] | None) -> None:
        super().__init__(view)
        self.change = change
        self.settings = view.settings if view else Settings()
        self.chart = RunChart()
        self.own_settings: dict[str, Any] | None = None
        """Chart settings that a key changed on this screen; used only when there is no ``change`` to report them to."""

    # What part of the chart is visible, and where values are read

    def _show_window(self, window: Window) -> None:
        self.chart.window = window
        self.settle()

    def on_chart_pane_pointed(self, event: ChartPane.Pointed) -> None:
        """Read the values at the clicked position."""
        event.stop()
        self._show_window(self.chart.window.pointed(event.x))

    def on_chart_pane_selected(self, event: ChartPane.Selected) -> None:
        """Show the selected range."""
        event.stop()
        if self.chart.whole is not None:
            self._show_window(self.chart.window.selected(self.chart.whole, event.first, event.last))

    def on_chart_pane_zoomed(self, event: ChartPane.Zoomed) -> None:
        """Zoom around the mouse."""
        event.stop()
        if self.chart.whole is not None:
            self._show_window(self.chart.window.zoomed(self.chart.whole, event.factor, event.x))

    def action_read(self, by: int) -> None:
        """Move the position at which values are read."""
        if self.chart.whole is not None:
            self._show_window(self.chart.window.moved(self.chart.whole, self.chart.columns, by))

    def action_zoom(self, factor: float) -> None:
        """Zoom around the position that is read, else around the middle."""
        if self.chart.whole is not None:
            self._show_window(self.chart.window.zoomed(self.chart.whole, factor))

    def action_whole(self) -> None:
        """Show the whole axis, and read no values."""
        self._show_window(Window())

    # How it is drawn

    def _change(self, **changes: Any) -> None:
        self.settings = replace(self.settings, **changes)
        self.own_settings = {name: getattr(self.settings, name) for name in ("log_axis", "smoothing", "per_rank")}
        if self.change is not None:
            self.change(self.settings)
        self.settle()

    def action_log_axis(self) -> None:
        """Switch between a linear and a logarithmic y axis."""
        self._change(log_axis=not self.settings.log_axis)

    def action_smooth(self, by: int) -> None:
        """Smooth the curves more or less."""
        self._change(smoothing=next_smoothing(self.settings.smoothing, by))

    def action_per_rank(self) -> None:
        """Switch between one curve per rank, and mean and spread."""
        self._change(per_rank=not self.settings.per_rank)

    def action_metric(self, by: int) -> None:
        """Show the next or previous metric."""
        self.chart.next_metric(by)
        self.settle()
