"""The losses of compared jobs in one chart, along the time since each began: what more GPUs gained. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gputop.losses import loss_metric
from gputop.tui.drawing import large_chart
from gputop.tui.drawing.charts.axis import first_step
from gputop.tui.drawing.comparison import Reached
from gputop.tui.drawing.jobs import run_of
from gputop.tui.drawing.large_chart import Chart
from gputop.tui.drawing.runs.overlay import HUES, curves_of, layers_of, span_of
from gputop.tui.state.view import View


def loss_chart(found: Sequence[Reached], view: View, width: int, height: int) -> tuple[str, Chart] | None:
    """Return the name of the loss and its chart, a curve for each job; None while no job has a loss."""
    runs = []
    for place, item in enumerate(found):
        run = run_of(item.job, view.snapshot)
        if run is not None:
            name = f"{item.gpus} GPU{'s' * (item.gpus != 1)}"
            runs.append((replace(run, name=name), HUES[place % len(HUES)]))
    losses = (loss_metric(view.history.metrics(run.run_id)) for run, _ in runs)
    metric = next((loss for loss in losses if loss is not None), None)
    layers = layers_of(runs, metric, "time", view.history) if metric is not None else []
    span = span_of(layers)
    if metric is None or span is None:
        return None
    start, end = first_step(*span), span[1]
    settings = view.settings
    columns = large_chart.columns_for(width)
    curves, marks = curves_of(layers, start, end, columns, per_rank=False, smoothing=settings.smoothing)
    if len(layers) == 1:
        curves = tuple(replace(curve, label=layers[0].run.name, style=layers[0].style) for curve in curves)
    return metric, Chart(
        width,
        height,
        curves,
        start,
        end,
        "time",
        marks,
        log=settings.log_axis,
        ascii=settings.ascii,
        plain=not settings.color,
    )
