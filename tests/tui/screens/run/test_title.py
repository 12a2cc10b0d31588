"""What the title of a run's chart says of how it is drawn."""

from __future__ import annotations

import pytest

from gputop.settings.values import Settings
from gputop.tui.drawing.line import plain
from gputop.tui.drawing.runs.window import Window
from gputop.tui.screens.run.chart import RunChart


@pytest.mark.parametrize(
    ("settings", "part", "said"),
    [
        (Settings(), None, "metric 1 of 2, linear, not smoothed, over time since start"),
        (Settings(), (3.0, 4.0), "zoomed (0: whole), metric 1 of 2, over time since start"),
        (
            Settings(log_axis=True, smoothing=0.5),
            (3.0, 4.0),
            "zoomed (0: whole), metric 1 of 2, log, smoothing 0.5, over time s",
        ),
    ],
)
def test_the_axis_is_named_where_the_chart_is_next_to_the_list(
    settings: Settings, part: tuple[float, float] | None, said: str
) -> None:
    chart = RunChart()
    chart.names, chart.metric, chart.window = ("loss", "lr"), "loss", Window(part)
    shown = plain(chart.description(settings))
    assert shown.startswith(said)
    if "log" not in said:
        assert len(shown) <= 60, "the room at 120 columns"
