"""The axes of charts: ticks at even distances, a constant that is flat, steps from 0."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest

from gputop.snapshot import Points
from gputop.tui.drawing import large_chart
from gputop.tui.drawing.braille import Trace, chart
from gputop.tui.drawing.charts.axis import step_text, step_ticks, y_axis
from gputop.tui.drawing.charts.x_axis import x_ticks
from gputop.tui.drawing.line import Line, plain
from gputop.tui.drawing.loss import LossChart
from tests import samples
from tests.tui import dashboards

NOISE = [0.1 + 1e-17 * (step % 3) + (1.4e-17 if step % 7 else 0) for step in range(200)]


def labels(lines: tuple[Line, ...], cells: int) -> dict[int, str]:
    """Row -> label of the y axis."""
    shown = {row: plain(line)[:cells].strip() for row, line in enumerate(lines)}
    return {row: text for row, text in shown.items() if text and text[0] in "-.0123456789"}


def rows_with_dots(lines: tuple[Line, ...]) -> list[int]:
    return [row for row, line in enumerate(lines) if any("\u2800" < char <= "\u28ff" for char in plain(line))]


def test_rounding_noise_is_a_flat_line() -> None:
    assert len(set(NOISE)) > 1
    assert len(rows_with_dots(chart([Trace(NOISE)], 60, 12))) == 1
    points = tuple(enumerate(map(float, NOISE)))
    drawn = large_chart.draw(
        large_chart.Chart(80, 12, (large_chart.Curve("value", "rank0", "*", points),), 0.0, 199.0, x_kind="step")
    )
    assert len(rows_with_dots(drawn)) == 1
    texts = list(labels(drawn, large_chart.LABEL_COLUMNS).values())
    assert len(texts) == len(set(texts)) > 1


@pytest.mark.parametrize("rows", [3, 5, 9, 16, 40])
@pytest.mark.parametrize(
    ("low", "high"), [(0.31, 0.46), (1.98, 8.2), (-3.0, 4.0), (1e-9, 3e-9), (12_345.0, 12_346.0), (0.1, 0.1), (5e8, 9e8)]
)
def test_ticks_are_at_even_distances_and_differ(low: float, high: float, rows: int) -> None:
    axis = y_axis(low, high, rows)
    assert axis.low <= low <= high <= axis.high
    places = [(place - axis.low) / (axis.high - axis.low) * (4 * rows - 1) for place, _ in axis.ticks]
    lines = [int(4 * rows - 1 - round(place)) // 4 for place in places]
    assert len({above - below for below, above in itertools.pairwise(lines)}) <= 1, lines
    texts = [text for _, text in axis.ticks]
    assert len(texts) == len(set(texts)) >= 2
    assert all(len(text) <= 7 for text in texts)
    if low < high and rows >= 9:
        assert (high - low) / (axis.high - axis.low) > 0.5, "a curve uses its room"


@pytest.mark.parametrize(("low", "high"), [(-1e308, 1e308), (0.0, 5e-324), (1.7e308, 1.79e308), (-5.0, -5.0), (0.0, 0.0)])
def test_no_value_breaks_an_axis(low: float, high: float) -> None:
    axis = y_axis(low, high, 12)
    assert math.isfinite(axis.low)
    assert math.isfinite(axis.high)
    assert axis.low < axis.high


@pytest.mark.parametrize("cells", [15, 28, 39, 60, 110])
@pytest.mark.parametrize("span", [1.0, 7.0, 48.0, 95.0, 288.0, 1000.0, 86400.0, 5e6])
def test_a_time_axis_has_two_ticks_so_that_its_length_can_be_read(span: float, cells: int) -> None:
    ticks = x_ticks("time", 0.0, span, cells)
    assert len(ticks) >= 2
    assert sum(len(text) + 1 for _, text in ticks) <= max(cells, 16)


def test_steps_are_counted_from_0_in_round_numbers() -> None:
    assert [text for _, text in step_ticks(0, 12_340, 60)] == ["0", "2.5k", "5k", "7.5k", "10k"]
    assert [text for _, text in step_ticks(0, 3, 60)] == ["0", "1", "2", "3"]
    assert [step_text(value) for value in (0, 999, 1000, 2500, 1_250_000, 40_000)] == ["0", "999", "1k", "2.5k", "1.25M", "40k"]


def test_the_dashboards_chart_has_real_axes() -> None:
    falling = tuple(8 - step / 500 for step in range(3000))
    points = Points("run-1", 0, "loss", tuple(range(1, 3001)), tuple(map(float, range(3000))), falling)
    view = dashboards.view_of([samples.snapshot(runs=(samples.run(world_size=1),), points=(points,))])
    drawn = LossChart().draw(view, "loss", 90, 18)
    assert plain(drawn[-1]).split()[:3] == ["0", "500", "1k"]
    found = labels(drawn[:-2], 7)
    assert len(found) >= 4
    assert len({below - above for above, below in itertools.pairwise(found)}) == 1
    assert "┬" in plain(drawn[-2])


def test_a_run_that_resumes_from_a_checkpoint_keeps_its_steps() -> None:
    """Steps 90,000 to 91,000 would be a hair at the end of an axis from 0."""
    points = Points("run-1", 0, "loss", tuple(range(90_000, 91_000)), tuple(map(float, range(1000))), (1.0,) * 1000)
    view = dashboards.view_of([samples.snapshot(runs=(samples.run(world_size=1),), points=(points,))])
    assert plain(LossChart().draw(view, "loss", 90, 18)[-1]).split()[0] == "90k"


@pytest.mark.parametrize("state", ["running", "finished"])
def test_steps_beyond_the_precision_of_numbers_are_drawn(state: str) -> None:
    points = Points("run-1", 0, "loss", (2**62,), (0.0,), (1.0,))
    run = replace(samples.run(world_size=1), state=state)
    view = dashboards.view_of([samples.snapshot(runs=(run,), points=(points,))])
    assert len(LossChart().draw(view, "loss", 90, 18)) == 18
