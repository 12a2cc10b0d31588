"""Several runs in one chart: along which axis, in which hues, what a position reads, and what differs between them."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.history.history import History
from gputop.snapshot import Points, Run
from gputop.tui.drawing import large_chart
from gputop.tui.drawing.charts.x_axis import x_text, x_ticks
from gputop.tui.drawing.large_chart import Chart, Note
from gputop.tui.drawing.line import plain
from gputop.tui.drawing.runs.differences import config_lines
from gputop.tui.drawing.runs.overlay import HUES, curves_of, layers_of, readout, span_of
from gputop.tui.drawing.runs.positions import X_KINDS, positions
from gputop.tui.drawing.runs.window import Window
from tests import samples

STARTS = {"a": 1_000_000.0, "b": 2_000_000.0}


def two_runs() -> tuple[list[tuple[Run, str]], History]:
    """Two runs a fortnight apart: b takes twice as long for a step, and logs its loss under another name."""
    history = History()
    runs = []
    for name, start in STARTS.items():
        pace = 1.0 if name == "a" else 2.0
        steps = tuple(range(100))
        times = tuple(start + pace * step for step in steps)
        loss = Points(name, 0, "loss" if name == "a" else "train/loss", steps, times, tuple(3.0 - step / 50 for step in steps))
        epoch = Points(name, 0, "epoch", steps, times, tuple(float(step // 20) for step in steps))
        history.recall((loss, epoch))
        config = {"lr": 0.1 if name == "a" else 0.2, "model": "m", "optimizer": {"name": "sgd", "nesterov": name == "a"}}
        runs.append((samples.run(1, run_id=name, name=f"run {name}", created_at=start, config=config), "accent"))
    return [runs[0], (runs[1][0], HUES[0])], history


@pytest.mark.parametrize(
    ("kind", "span"), [("time", (0.0, 198.0)), ("step", (0.0, 99.0)), ("epoch", (0.0, 4.95)), ("clock", (1e6, 2_000_198.0))]
)
def test_runs_share_an_axis_of_any_kind(kind: str, span: tuple[float, float]) -> None:
    runs, history = two_runs()
    layers = layers_of(runs, "loss", kind, history)
    assert [layer.run.run_id for layer in layers] == ["a", "b"]
    assert span_of(layers) == pytest.approx(span)
    curves, marks = curves_of(layers, *span, 200, per_rank=True, smoothing=0.0)
    assert [(curve.label, curve.style) for curve in curves] == [("run a", "accent"), ("run b", HUES[0])]
    assert marks == ()
    ends = [curve.points[-1][0] for curve in curves]
    assert ends == pytest.approx(
        {"time": (99, 198), "step": (99, 99), "epoch": (4.95, 4.95), "clock": (1_000_099, 2_000_198)}[kind],
        abs=(span[1] - span[0]) / 200,
    )


def test_a_run_without_epochs_has_no_place_on_their_axis() -> None:
    runs, history = two_runs()
    bare = replace(runs[0][0], run_id="bare")
    assert positions("epoch", bare, history) is None
    assert [layer.run.run_id for layer in layers_of([*runs, (bare, HUES[1])], "loss", "epoch", history)] == ["a", "b"]


@given(st.sampled_from(X_KINDS), st.floats(-1e6, 1e6))
def test_positions_lead_there_and_back(kind: str, offset: float) -> None:
    runs, history = two_runs()
    where = positions(kind, runs[1][0], history)
    assert where is not None
    at = (50.0 if where.base == "step" else STARTS["b"]) + offset
    assert where.of_x(where.to_x(at)) == pytest.approx(at, abs=1e-3)


def test_a_single_run_keeps_its_ranks_and_its_range() -> None:
    history = History()
    history.recall(samples.loss_points())
    layers = layers_of([(samples.run(), "accent")], "loss", "time", history)
    span = span_of(layers)
    assert span == (0.0, 199.0)
    ranks, _ = curves_of(layers, 0.0, 199.0, 100, per_rank=True, smoothing=0.0)
    assert [curve.label for curve in ranks] == ["rank 0", "rank 1", "rank 2", "rank 3"]
    (mean,), _ = curves_of(layers, 0.0, 199.0, 100, per_rank=False, smoothing=0.0)
    assert mean.spread.points[0][0] < 3.0


def chart(**changes: object) -> Chart:
    runs, history = two_runs()
    layers = layers_of(runs, "loss", "step", history)
    curves, _ = curves_of(layers, 0.0, 99.0, large_chart.columns_for(100), per_rank=False, smoothing=0.0)
    return replace(Chart(100, 20, curves, 0.0, 99.0, "step"), **changes)  # type: ignore[arg-type]


def test_the_cursor_reads_every_curve_and_stays_behind_them() -> None:
    drawn = chart(cursor=50.0)
    assert plain(readout(drawn)) == "step 50  ━ run a 2  ━ run b 2  "
    assert readout(chart()) == ()
    lines = [plain(line) for line in large_chart.draw(drawn)]
    columns = {at for line in lines[:18] for at, char in enumerate(line) if char == "│" and at > 9}
    assert len(columns) == 1
    assert sum(line[next(iter(columns))] != "│" for line in lines[:18]) >= 1, "a curve crosses it"
    letters = [plain(line) for line in large_chart.draw(chart(cursor=50.0, ascii=True))]
    assert sum("|" in line[10:] for line in letters) > 10
    assert all(line.isascii() for line in letters)


def test_notes_name_what_happened_where_they_cover_nothing() -> None:
    notes = (Note(20.0, "epoch 1"), Note(22.0, "epoch 2"), Note(60.0, "checkpoint", "warn"), Note(500.0, "outside"))
    high = chart(y_range=(0.0, 9.0), notes=notes)
    top = plain(large_chart.draw(high)[0])
    assert top.count("▾") == 3
    assert "▾epoch 2" in top
    assert "epoch 1" not in top
    assert "▾checkpoint" in top
    assert "outside" not in top


@pytest.mark.parametrize(
    ("kind", "start", "end", "texts"),
    [
        ("step", 0, 4000, ["0", "1k", "2k", "3k", "4k"]),
        ("time", 0, 200, ["0s", "1m00s", "2m00s", "3m00s"]),
        ("time", 3600, 3720, ["1h00m", "1h00m", "1h01m", "1h01m", "1h02m"]),
        ("epoch", 0, 5, ["0", "1", "2", "3", "4", "5"]),
        ("epoch", 2.0, 2.1, ["2", "2.02", "2.04", "2.06", "2.08", "2.1"]),
    ],
)
def test_ticks_are_round_numbers(kind: str, start: float, end: float, texts: list[str]) -> None:
    assert [text for _, text in x_ticks(kind, start, end, 70)] == texts


@given(
    st.sampled_from(X_KINDS),
    st.floats(-1e12, 1e12),
    st.floats(1e-3, 1e10),
    st.integers(1, 300),
)
def test_ticks_lie_on_the_axis_and_are_few(kind: str, start: float, width: float, cells: int) -> None:
    end = start + width
    if end <= start:
        return
    ticks = x_ticks(kind, start, end, cells)
    assert len(ticks) <= cells // 10 + 2
    slack = width * 1e-3 + abs(start) * 1e-9
    assert all(start - slack <= at <= end + slack for at, _ in ticks)
    assert x_text(kind, start)


WHOLE = (0.0, 1000.0)


def test_zooming_keeps_the_place_and_ends_at_the_whole() -> None:
    window = Window().zoomed(WHOLE, 0.5, 200.0)
    assert window.visible(WHOLE) == (100.0, 600.0)
    closer = window.zoomed(WHOLE, 0.5, 200.0)
    assert closer.visible(WHOLE) == (150.0, 400.0)
    assert closer.zoomed(WHOLE, 10.0).part is None
    assert closer.zoomed((WHOLE[0], WHOLE[1] + 4.0), 2.0).zoomed((WHOLE[0], WHOLE[1] + 8.0), 2.0).part is None, (
        "a live run grows"
    )
    assert Window().selected(WHOLE, 700.0, 300.0).visible(WHOLE) == (300.0, 700.0)
    assert Window().selected(WHOLE, 300.0, 300.0) == Window()
    assert Window((2000.0, 3000.0)).visible(WHOLE) == WHOLE, "of another run"


def test_the_cursor_starts_at_the_newest_value_and_takes_the_window_along() -> None:
    window = Window().moved(WHOLE, 100, -1)
    assert window.cursor == 995.0
    assert window.moved(WHOLE, 100, -10).cursor == 895.0
    assert window.moved(WHOLE, 100, 50).cursor == 1000.0
    part = Window((100.0, 200.0), 101.0).moved(WHOLE, 100, -10)
    assert part.cursor == 91.0
    assert part.part is not None
    assert part.part[0] <= 91.0 <= part.part[1]


@given(
    st.lists(
        st.tuples(st.sampled_from(["zoom", "move", "select", "point"]), st.floats(0, 1000), st.floats(0.1, 10)), max_size=12
    )
)
def test_no_series_of_keys_leaves_the_axis(moves: list[tuple[str, float, float]]) -> None:
    window = Window()
    for what, at, factor in moves:
        if what == "zoom":
            window = window.zoomed(WHOLE, factor, at)
        elif what == "move":
            window = window.moved(WHOLE, 100, int(at) - 500)
        elif what == "select":
            window = window.selected(WHOLE, at, at * factor)
        else:
            window = window.pointed(at)
        start, end = window.visible(WHOLE)
        assert -1e-6 <= start < end <= 1000 + 1e-6
        assert window.cursor is None or math.isfinite(window.cursor)


def text_of(runs: list[tuple[Run, str]], columns: int) -> list[str]:
    return [plain(line).rstrip() for line in config_lines(runs, columns)]


def test_what_differs_comes_first_and_the_rest_is_dim() -> None:
    runs, _ = two_runs()
    lines = text_of(runs, 50)
    assert [line.split()[1:] for line in lines] == [["●"], ["0.1", "0.2"], ["True", "False"], ["m"], ["sgd"]]
    assert lines[2].startswith("optimizer.neste…")
    assert {span.style for line in config_lines(runs, 50)[3:] for span in line} == {"dim"}
    assert all(len(line) <= 50 for line in lines)


def test_a_narrow_pane_stacks_values_and_a_single_run_shows_where_it_comes_from() -> None:
    runs, _ = two_runs()
    assert text_of([*runs, *((run, HUES[2]) for run, _ in runs)], 36)[:5] == ["lr", "  ● 0.1", "  ● 0.2", "  ● 0.1", "  ● 0.2"]
    alone = text_of(runs[:1], 50)
    assert alone[0].split() == ["lr", "0.1"]
    assert any(line.startswith("command") for line in alone)
    assert text_of([(replace(run, config={}), style) for run, style in runs], 50) == ["No configuration recorded."]
    assert text_of([runs[0], runs[0]], 50)[0] == "The same in all of them:"
