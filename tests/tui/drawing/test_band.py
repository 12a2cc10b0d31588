"""The band around a curve, and a loss that is NaN."""

from __future__ import annotations

import math
from dataclasses import replace

from gputop.history.history import History
from gputop.snapshot import Points
from gputop.tui.drawing import run_numbers
from gputop.tui.drawing.braille import Trace, chart
from gputop.tui.drawing.line import plain
from gputop.tui.drawing.loss import LossChart
from gputop.tui.drawing.training import draw_training
from gputop.tui.screens.run.screen import RunScreen
from gputop.tui.state.view import View
from tests import samples
from tests.tui import dashboards
from tests.tui.kit import ScreenApp, text_of


def test_the_band_continues_behind_its_curve() -> None:
    """A curve used to cut its band in two: the cells that it passes through had no band."""
    drawn = chart([Trace([5.0] * 40, "rank0", [2.0] * 40, [8.0] * 40)], 27, 12)
    rows = [[(char, span.style) for span in row[1:] for char in span.text] for row in drawn]
    curve = [style for row in rows for char, style in row if "\u2800" < char <= "\u28ff"]
    assert curve == ["band rank0"] * 20
    column = [row[10] for row in rows]
    filled = [place for place, (_, style) in enumerate(column) if style.startswith("band")]
    assert filled == list(range(filled[0], filled[-1] + 1))
    assert 6 <= len(filled) < len(rows), "what lies outside the band is blank"


def test_the_band_takes_no_cell_before_or_after_it() -> None:
    values: list[float | None] = [None] * 16 + [5.0] * 8 + [None] * 16
    edges = [[value and value + more for value in values] for more in (-3.0, 3.0)]
    for row in chart([Trace(values, "rank0", *edges)], 27, 12):
        cells = [span.style for span in row[1:] for _ in span.text]
        assert {place for place, style in enumerate(cells) if style.startswith("band")} <= set(range(8, 12))


def nan_view(until: int = 100) -> View:
    """A run whose loss is NaN from step 40 on."""
    base = samples.run(world_size=1, step=until)
    ranks = tuple(replace(rank, metrics={**rank.metrics, "loss": math.nan}) for rank in base.ranks)
    clock = tuple(samples.EPOCH - 100 + step for step in range(until + 1))
    losses = tuple(math.nan if step >= 40 else 2.0 for step in range(until + 1))
    points = Points("run-1", 0, "loss", tuple(range(until + 1)), clock, losses)
    return dashboards.view_of([samples.snapshot(runs=(replace(base, ranks=ranks),), points=(points,))])


def test_a_loss_that_is_no_number_says_since_which_step() -> None:
    view = nan_view()
    run = view.run
    assert run is not None
    assert run_numbers.not_finite_since(run, view.history) == 40
    assert run_numbers.not_finite_since(samples.run(), dashboards.healthy().history) is None
    assert run_numbers.not_finite_since(run, History()) is None


def test_a_run_with_a_loss_that_is_no_number_has_no_time_left() -> None:
    view = nan_view()
    pane = draw_training(view, LossChart(), 80, 20)
    assert "left" not in plain(pane.title)
    assert "loss NaN since step 40" in plain(pane.lines[0])
    assert {span.style for span in pane.lines[0] if "NaN" in span.text} == {"bad"}


async def test_the_run_screen_says_nan_in_red_and_no_time_left() -> None:
    app = ScreenApp(RunScreen("run-1"), nan_view())
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await pilot.pause()
        summary = app.screen.query_one("#summary").lines
        assert {span.style for row in summary for span in row if "NaN" in span.text} == {"bad"}
        assert "NaN since step 40" in text_of(app)
        assert "left" not in "".join(map(plain, summary))
