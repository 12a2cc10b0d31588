from __future__ import annotations

import itertools
import math
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from textual import events

from gputop.history.history import History
from gputop.history.metrics import MetricSeries
from gputop.run_questions import GpusAnswer, GpusQuestion
from gputop.settings.values import Settings
from gputop.snapshot import DeviceUse, Points
from gputop.tui.drawing import large_chart, run_numbers
from gputop.tui.drawing.line import STYLES, plain
from gputop.tui.screens.run.screen import RunScreen
from gputop.tui.widgets.chart import ChartPane
from tests import samples
from tests.tui import dashboards
from tests.tui.kit import SIZES, ScreenApp, text_of, view_of, whole_app

ROOT = Path(__file__).parents[4]


def series_of(*ranks: list[float]) -> dict[int, MetricSeries]:
    found = {}
    for rank, values in enumerate(ranks):
        found[rank] = MetricSeries()
        found[rank].extend(range(len(values)), [100.0 + step for step in range(len(values))], values)
    return found


def chart_of(series: dict[int, MetricSeries], per_rank: bool = True, **changes: object) -> large_chart.Chart:
    start, end = large_chart.span_of(series, "step") or (0.0, 1.0)
    curves, marks = large_chart.curves_of(series, x_kind="step", start=start, end=end, columns=200, per_rank=per_rank)
    base = large_chart.Chart(100, 20, curves, start, end, "step", marks)
    return replace(base, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [(100, 20), (24, 5), (160, 45), (10, 3), (23, 9), (60, 1)])
@pytest.mark.parametrize("changes", [{}, {"log": True}, {"ascii": True}, {"plain": True, "log": True}])
def test_a_drawing_has_the_size_that_was_asked_for(size: tuple[int, int], changes: dict[str, bool]) -> None:
    series = series_of([2.0 / (step + 1) for step in range(300)], [3.0 / (step + 1) for step in range(300)])
    lines = large_chart.draw(chart_of(series, width=size[0], height=size[1], **changes))
    assert len(lines) == size[1]
    assert {len(plain(line)) for line in lines} == {size[0]}
    assert {part for line in lines for span in line for part in span.style.split()} <= set(STYLES)


def test_every_rank_has_its_own_style_and_a_falling_loss_falls() -> None:
    series = series_of(*([10.0 * rank + 5 - step / 100 for step in range(400)] for rank in range(4)))
    lines = large_chart.draw(chart_of(series))
    rows = {style: [y for y, line in enumerate(lines) if any(span.style == style for span in line)] for style in STYLES}
    tops = [min(rows[f"rank{rank}"]) for rank in range(4)]
    assert tops == sorted(tops, reverse=True)
    assert len(set(tops)) == 4


def test_ascii_is_ascii_and_distinguishes_ranks_without_colour() -> None:
    series = series_of([1.0] * 50, [2.0] * 50)
    text = "\n".join(plain(line) for line in large_chart.draw(chart_of(series, ascii=True)))
    assert text.isascii()
    assert "0" * 30 in text
    assert "1" * 30 in text


def test_a_spike_between_two_columns_is_not_lost() -> None:
    values = [1.0] * 20_000
    values[7_777] = 50.0
    chart = chart_of(series_of(values))
    assert max(high for curve in chart.curves for _, _, high in curve.spread.points) == 50.0
    assert sum(len(curve.points) for curve in chart.curves) <= 200
    rank = [[span.text.strip() for span in line if span.style == "rank0"] for line in large_chart.draw(chart)]
    assert [any(texts) for texts in rank] == [True] * 18 + [False] * 2


def test_nan_and_infinity_are_marked_and_nothing_else_suffers() -> None:
    chart = chart_of(series_of([1.0, 0.9, math.nan, 0.7, math.inf, 0.5]))
    assert chart.marks == (2.0, 4.0)
    assert "× NaN or infinite" in plain(large_chart.legend(chart))
    bad = [span.text for line in large_chart.draw(chart) for span in line if span.style == "bad"]
    assert "".join(bad).count("×") == 2


def test_a_series_of_only_nan_is_described_in_words() -> None:
    text = "".join(plain(line) for line in large_chart.draw(chart_of(series_of([math.nan] * 5))))
    assert "every value so far is NaN or infinite" in text


def test_a_log_axis_leaves_out_what_has_no_logarithm() -> None:
    lines = large_chart.draw(chart_of(series_of([-1.0, 0.0, 0.01, 1.0, 100.0]), log=True))
    labels = "".join(plain(line)[: large_chart.LABEL_COLUMNS] for line in lines)
    assert "0.1" in labels
    assert "100" in labels
    nothing = "".join(plain(line) for line in large_chart.draw(chart_of(series_of([-1.0, -2.0]), log=True)))
    assert "no logarithm" in nothing


@pytest.mark.parametrize("value", [0.0, 1e-30, 1e30, -5.0, 1.0])
def test_a_flat_curve_of_any_size_can_be_drawn(value: float) -> None:
    lines = large_chart.draw(chart_of(series_of([value] * 10)))
    assert any(span.style == "rank0" for line in lines for span in line)


def test_one_value_can_be_drawn() -> None:
    lines = large_chart.draw(chart_of(series_of([1.0])))
    assert any(span.style == "rank0" for line in lines for span in line)


def test_mean_and_spread_over_ranks() -> None:
    curves, _ = large_chart.curves_of(
        series_of([1.0] * 10, [3.0] * 10), x_kind="step", start=0, end=9, columns=50, per_rank=False
    )
    (mean,) = curves
    assert {(low, high) for _, low, high in mean.spread.points} == {(1.0, 3.0)}
    assert {y for _, y in mean.points} == {2.0}


def test_the_spread_has_no_gaps_where_steps_are_few() -> None:
    chart = chart_of(series_of([1.0] * 5, [3.0] * 5), per_rank=False)
    middle = large_chart.draw(chart)[4]
    assert "░" * 80 in plain(middle)
    assert "lowest and highest" in plain(large_chart.legend(chart))


def test_the_axes_are_labeled_where_their_ticks_are() -> None:
    lines = [plain(line) for line in large_chart.draw(chart_of(series_of([float(step) for step in range(101)])))]
    ticks, labels = lines[-2], lines[-1]
    assert labels.split() == ["0", "20", "40", "60", "80", "100"]
    assert [at for at, char in enumerate(ticks) if char == "┬"] == [9, 27, 45, 63, 81, 99]
    assert all(labels[at] in "0123456789" for at in (9, 27, 45, 63, 81, 99))
    numbers = {line[:8].strip(): row for row, line in enumerate(lines) if line[8] == "┤"}
    assert list(numbers) == ["100", "75", "50", "25", "0"]
    places = list(numbers.values())
    assert {below - above for above, below in itertools.pairwise(places)} == {4}


def test_a_live_chart_is_not_drawn_by_plotext() -> None:
    code = (
        "import sys\n"
        "from gputop.tui.drawing import large_chart as c\n"
        "curve = c.Curve('value', 'accent', '*', ((0.0, 1.0), (1.0, 2.0)))\n"
        "c.draw(c.Chart(80, 20, (curve,), 0.0, 1.0))\n"
        "print('plotext' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "False\n"


def test_pace_and_time_left() -> None:
    history = History()
    points = Points("run-1", 0, "loss", tuple(range(101)), tuple(1000.0 + step / 2 for step in range(101)), (1.0,) * 101)
    run = samples.run(world_size=1, step=100)
    history.observe(samples.snapshot(points=(points,), runs=(run,)))
    assert run_numbers.steps_per_s(run, history) == pytest.approx(2.0)
    assert run_numbers.seconds_left(run, history) == pytest.approx((5000 - 100) / 2)
    assert run_numbers.seconds_left(replace(run, state="finished"), history) is None
    assert run_numbers.speed(samples.run(world_size=4)) == ("samples_per_s", 4 * 460.0)


def test_values_that_were_there_before_gputop_came_make_no_pace() -> None:
    """Printed values have no times: all that a file held when it was found have the time of its last line."""
    history, run = History(), samples.run(world_size=1, step=13_400)
    old = Points("run-1", 0, "loss", tuple(range(0, 13_401, 20)), (1000.0,) * 671, (1.0,) * 671)
    history.observe(samples.snapshot(points=(old,), runs=(run,)))
    assert (run_numbers.steps_per_s(run, history), run_numbers.seconds_left(run, history)) == (None, None)
    new = Points("run-1", 0, "loss", (13_420, 13_440), (1002.0, 1002.0), (1.0, 1.0))
    history.observe(samples.snapshot(points=(new,), runs=(run,)))
    assert run_numbers.steps_per_s(run, history) == pytest.approx(20.0)


def test_the_time_left_is_in_the_numbers_of_the_script() -> None:
    """Automatic values are numbered by optimizer steps; a script that logs tokens knows its total in tokens."""
    history = History()
    times = tuple(1000.0 + step / 2 for step in range(101))
    optimizer_steps, tokens = tuple(range(101)), tuple(range(0, 10_100, 100))
    points = (
        Points("run-1", 0, "auto/loss", optimizer_steps, times, (1.0,) * 101),
        Points("run-1", 0, "step_s", optimizer_steps, times, (0.5,) * 101),
        Points("run-1", 0, "loss/tokens", tokens, times, (1.0,) * 101),
    )
    run = samples.run(world_size=1, step=10_000)
    (rank,) = run.ranks
    rank = replace(rank, optimizer_step=100, facts={"progress": {"total_steps": 50_000, "epochs": None}})
    run = replace(run, ranks=(rank,))
    history.observe(samples.snapshot(points=points, runs=(run,)))
    assert run_numbers.steps_per_s(run, history) == pytest.approx(200.0)
    assert run_numbers.seconds_left(run, history) == pytest.approx((50_000 - 10_000) / 200)


@pytest.mark.parametrize("size", SIZES)
async def test_the_run_screen_shows_the_chart_and_the_keys_at_every_size(size: tuple[int, int]) -> None:
    app = ScreenApp(RunScreen("run-1"), view_of())
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        await pilot.pause()
        shown = text_of(app)
        for words in (
            "resnet18-ddp",
            "1 240/5 000",
            "linear",
            "On the same axis",
            "Esc back",
            *(["Space overlay"] if size[0] >= 160 else []),  # else in the help (?)
            "w where",
            "k stop",
            "┤",
        ):
            assert words in shown, words
        assert "too small" not in shown


async def test_keys_change_the_chart() -> None:
    app = ScreenApp(RunScreen("run-1"), view_of())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        assert "linear, not smoothed, over time" in text_of(app)
        for key, words in (
            ("Y", "log, not smoothed"),
            ("]", "smoothing 0.3"),
            ("x", "over steps"),
            ("r", "rank 3"),
            ("[", "not smoothed"),
        ):
            await pilot.press(key)
            await pilot.pause()
            assert words in text_of(app), key


async def test_a_key_changes_the_apps_settings_when_it_listens() -> None:
    heard: list[Settings] = []
    app = ScreenApp(RunScreen("run-1", view_of(), heard.append), view_of())
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.press("Y")
    assert heard[-1].log_axis


async def test_another_metric_is_a_key_away() -> None:
    more = tuple(replace(points, metric="accuracy") for points in samples.loss_points())
    app = ScreenApp(RunScreen("run-1"), view_of(samples.snapshot(points=samples.loss_points() + more)))
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        assert "metric 1 of 2" in text_of(app)
        await pilot.press("m")
        await pilot.pause()
        assert "─ accuracy ─" in text_of(app)


async def test_a_chart_is_not_drawn_again_while_nothing_changed() -> None:
    view = view_of(samples.snapshot(runs=(samples.run(state="finished", ended_at=samples.EPOCH),)))
    app = ScreenApp(RunScreen("run-1"), view)
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        await pilot.pause()
        chart = app.screen.query_one("#metric", ChartPane)
        before = chart.drawings
        assert before > 0
        for _ in range(5):
            app.give(replace(view))
        assert chart.drawings == before
        await pilot.press("Y")
        assert chart.drawings == before + 1


async def test_a_run_without_metrics_says_how_to_log_one() -> None:
    app = ScreenApp(RunScreen("run-1"), view_of(samples.snapshot(points=())))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert "gputop.log(loss=loss)" in text_of(app)


async def test_the_chart_keeps_its_share_of_the_screen_above_the_rows_of_many_gpus() -> None:
    devices = tuple(samples.device(index) for index in range(16))
    uses = (DeviceUse(device.uuid, samples.GIB, 97.0, "C") for device in devices)
    processes = tuple(samples.rank_process(rank, (use,)) for rank, use in enumerate(uses))
    changes = {"devices": devices, "processes": processes, "runs": (samples.run(16),)}
    first = replace(samples.snapshot(0), **changes, points=samples.loss_points(16))
    view = dashboards.view_of([first, *(replace(samples.snapshot(tick), **changes) for tick in range(1, 9))])
    app = ScreenApp(RunScreen("run-1"), view)
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        assert "GPU11" in text_of(app)
        chart, main = app.screen.query_one(ChartPane), app.screen.query_one("#main")
        assert chart.size.height >= int(0.3 * main.size.height)


async def test_that_no_gpu_was_recorded_is_said_once_it_is_known() -> None:
    without = replace(samples.snapshot(), processes=(), devices=())
    screen = RunScreen("run-1")
    app = ScreenApp(screen, view_of(without))
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        assert "none was recorded" not in text_of(app), "nothing has answered yet"
        screen.take_answer(GpusAnswer(GpusQuestion(("run-1",)), ()))
        app.give(app.view)
        await pilot.pause()
        assert "none was recorded with it" in text_of(app)


async def test_a_run_that_is_gone_does_not_break_the_screen() -> None:
    app = ScreenApp(RunScreen("run-1"), view_of())
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        app.give(view_of(samples.snapshot(1, runs=(), processes=())))
        await pilot.pause()
        assert "resnet18-ddp" in text_of(app)
    app = ScreenApp(RunScreen("nobody"), view_of())
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        assert "no longer listed" in text_of(app)


async def test_ascii_and_no_colour_come_from_the_view() -> None:
    app = ScreenApp(RunScreen("run-1"), view_of(settings=Settings(ascii=True, color=False)))
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        await pilot.press("r")
        await pilot.pause()
        shown = text_of(app)
        assert shown.isascii()
        assert "?" not in shown.replace("? more", "")
        assert "3333" in shown


async def test_values_are_read_and_a_range_is_shown_by_keys() -> None:
    app = ScreenApp(RunScreen("run-1"), view_of())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        await pilot.press("x", "left", "left")
        await pilot.pause()
        shown = text_of(app)
        assert "step 196" in shown
        assert "lowest and highest" not in shown, "the values take the place of the legend"
        await pilot.press("shift+left", "plus", "plus")
        await pilot.pause()
        shown = text_of(app)
        assert "zoomed" in shown
        assert "step 178" in shown
        assert app.screen.view.settings.interval_s == 1.0, "the keys zoom, and do not change the interval"
        await pilot.press("minus", "0")
        await pilot.pause()
        shown = text_of(app)
        assert "zoomed" not in shown
        assert "step 178" not in shown


async def test_the_mouse_reads_values_selects_a_range_and_zooms() -> None:
    screen = RunScreen("run-1")
    app = ScreenApp(screen, view_of())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        await pilot.press("x")
        await pilot.pause()
        pane = screen.query_one("#metric", ChartPane)
        cells = pane.chart.width - large_chart.LABEL_COLUMNS - 1
        left = 1 + large_chart.LABEL_COLUMNS + 1
        await pilot.click("#metric", offset=(left + cells // 2, 8))
        await pilot.pause()
        assert f"step {round(199 * (cells // 2 + 0.5) / cells)}" in text_of(app)
        await pilot.mouse_down("#metric", offset=(left + cells // 2, 8))
        await pilot.mouse_up("#metric", offset=(left + cells // 4, 8))
        await pilot.pause()
        start, end = screen.chart.window.visible(screen.chart.whole)
        assert (start, end) == pytest.approx((199 / 4, 199 / 2), abs=1.5)
        pane.post_message(events.MouseScrollDown(pane, left + 3, 8, 0, 1, 0, False, False, False))
        await pilot.pause()
        await pilot.pause()
        wider = screen.chart.window.visible(screen.chart.whole)
        assert wider[1] - wider[0] == pytest.approx(1.5 * (end - start))
        for _ in range(9):
            pane.post_message(events.MouseScrollDown(pane, left + 3, 8, 0, 1, 0, False, False, False))
        await pilot.pause()
        await pilot.pause()
        assert screen.chart.window.part is None


async def test_a_run_without_epochs_skips_their_axis() -> None:
    app = ScreenApp(RunScreen("run-1"), view_of())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        for words in ("over steps", "over time of day", "over time since start"):
            await pilot.press("x")
            await pilot.pause()
            assert words in text_of(app)


def read_late(late: int, live: int) -> tuple[Points, ...]:
    """Losses of a log: the lines that were there when it was found, then one line a second."""
    times = [samples.EPOCH - live] * late + [samples.EPOCH - live + second for second in range(1, live + 1)]
    return (Points("run-1", 0, "loss", tuple(range(late + live)), tuple(times), (1.0,) * (late + live)),)


@pytest.mark.parametrize(
    ("points", "words"),
    [
        (read_late(200, 0), "over steps"),
        (read_late(200, 50), "over steps"),
        (read_late(0, 200), "over time since start"),
        (read_late(10, 0), "over time since start"),
    ],
    ids=["read at once", "and then followed", "followed from the start", "too few to tell"],
)
async def test_the_chart_opens_on_an_axis_that_shows_the_curve(points: tuple[Points, ...], words: str) -> None:
    app = ScreenApp(RunScreen("run-1"), view_of(samples.snapshot(points=points)))
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        assert words in text_of(app)


async def test_the_axis_of_a_chart_does_not_move_by_itself() -> None:
    view = view_of(samples.snapshot(points=read_late(200, 0)))
    app = ScreenApp(RunScreen("run-1"), view)
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        later = [samples.EPOCH + second for second in range(1, 1001)]
        points = Points("run-1", 0, "loss", tuple(range(200, 1200)), tuple(later), (1.0,) * 1000)
        view.history.observe(samples.snapshot(1, points=(points,)))
        app.give(view)
        await pilot.pause()
        assert "over steps" in text_of(app)
        await pilot.press("x")
        await pilot.pause()
        assert "over time of day" in text_of(app)


@pytest.mark.parametrize(
    ("keys", "ranks", "said"),
    [
        (("g", "h"), 2, "The heat rows are below the charts: g returns there."),
        (("t", "h"), 2, "The heat rows are below the charts: t returns there."),
        (("h",), 1, "This run has one rank: no other to compare it with."),
        (("h",), 2, "Of its ranks, only the loss is recorded."),
    ],
)
async def test_a_key_that_changes_nothing_says_why(keys: tuple[str, ...], ranks: int, said: str) -> None:
    view = view_of(samples.snapshot())
    run = replace(view.snapshot.runs[0], ranks=view.snapshot.runs[0].ranks[:ranks])
    view = replace(view, snapshot=replace(view.snapshot, runs=(run,)))
    screen = RunScreen(run.run_id)
    app = ScreenApp(screen, view)
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        await pilot.press(*keys)
        await pilot.pause()
        assert [note.message for note in app._notifications] == [said]


@pytest.mark.parametrize("keys", [(), ("tab", "tab"), ("g",), ("o",)])
@pytest.mark.parametrize("size", [(160, 50), (100, 30), (80, 24)])
async def test_the_tables_leave_the_screen_as_it_was(size: tuple[int, int], keys: tuple[str, ...]) -> None:
    app = ScreenApp(RunScreen("run-1"), dashboards.healthy())
    async with app.run_test(size=size) as pilot:

        async def after(*pressed: str) -> tuple[str, object]:
            await pilot.press(*pressed)
            for _ in range(3):
                await pilot.pause()
            return text_of(app), app.screen.focused

        before = await after(*keys)
        assert await after("t") != before
        assert await after("t") == before


async def test_the_tables_are_shown_in_place_of_the_list_and_the_list_comes_back() -> None:
    app = whole_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        await pilot.press("o")
        await pilot.pause()
        assert "TOOK" in text_of(app)
        await pilot.press("t")
        await pilot.pause()
        assert "RANK" in text_of(app)
        assert "Configuration" in text_of(app)
        await pilot.press("t")
        await pilot.pause()
        assert "TOOK" in text_of(app)
        assert app.screen.focused is app.screen.query_one("#runs")
