"""Values at the limits of numbers, and names that try to control the terminal: every screen shows them, harmlessly."""

from __future__ import annotations

import asyncio
import sys
import unicodedata
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.app import App

from gputop import units
from gputop.doctor.findings.finding import Fact, Finding
from gputop.history.history import History
from gputop.history.series import X_MAX, Series
from gputop.jobs.store import Job
from gputop.snapshot import Points, Snapshot
from gputop.tui.drawing import comparison, large_chart
from gputop.tui.drawing import jobs as drawn_jobs
from gputop.tui.drawing.doctor.finding import finding_lines
from gputop.tui.drawing.gpus.past import area, row_of_past
from gputop.tui.drawing.line import MARKS_MAX, ascii_line, clean, line, plain, text_width
from gputop.tui.drawing.line import width as line_width
from gputop.tui.drawing.prose import pairs, wrapped
from gputop.tui.screens.compare import CompareScreen
from gputop.tui.screens.doctor import DoctorScreen
from gputop.tui.screens.run.screen import RunScreen
from gputop.tui.state.view import View
from tests import samples
from tests.tui.dashboards import DashboardApp
from tests.tui.kit import ScreenApp, text_of, view_of
from tests.tui.screens.extreme import MARKUP, NUMBERS, TEXTS, Odd

MAX = sys.float_info.max
SIZES = ((160, 50), (80, 24), (48, 14))
FORBIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
JOBS = [
    Job(
        f"job-{count}",
        "lenet",
        "finished",
        (),
        Path(__file__),
        recipe_id="[red]",
        device_uuids=tuple(samples.device(index).uuid for index in range(count)),
        started_at=count * 1e308,
        ended_at=samples.EPOCH,
        exit_code=0,
    )
    for count in (1, 2)
]
SCREENS: dict[str, tuple[Callable[[View], App[None]], tuple[str, ...]]] = {
    "dashboard": (DashboardApp, ("c", "s", "t", "2")),
    "run": (lambda view: ScreenApp(RunScreen("run-0"), view), ("Y", "r", "x", "right", "t")),
    "compare": (lambda view: ScreenApp(CompareScreen(JOBS, "job-1"), view), ("right",)),
    "doctor": (lambda view: ScreenApp(DoctorScreen(), view), ("down", "down", "down")),
}


def check(app: App[None]) -> None:
    """The text on the screen fits it, and contains nothing that a terminal would obey."""
    wide = app.size.width
    for strip in app.screen._compositor.render_strips(app.size):
        text = "".join(segment.text for segment in strip)
        assert not {unicodedata.category(char) for char in text} & FORBIDDEN, ascii(text)
        assert cell_len(text) <= wide, ascii(text)
        assert len(text) <= wide * (MARKS_MAX + 1), ascii(text[:200])


@pytest.mark.parametrize("screen", SCREENS)
@given(seed=st.integers(0, 2**32))
@example(seed=1017)  # a range of steps that is too wide for a float
@settings(
    max_examples=5,
    deadline=None,
    phases=(Phase.explicit, Phase.reuse, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@pytest.mark.timeout(180)
def test_no_value_and_no_name_breaks_a_screen(screen: str, seed: int) -> None:
    make, keys = SCREENS[screen]

    async def look() -> None:
        views = [Odd(seed + number).view() for number in range(2)]
        app = make(views[0])
        async with app.run_test(size=SIZES[0]) as pilot:
            for view, size in ((views[0], SIZES[0]), (views[1], SIZES[1]), (views[0], SIZES[2])):
                await pilot.resize_terminal(*size)
                app.screen.show(view)  # type: ignore[attr-defined]
                await pilot.pause()
                check(app)
            for key in keys:
                await pilot.press(key)
                check(app)

    asyncio.run(look())


@pytest.mark.parametrize("screen", ["dashboard", "run", "doctor"])
async def test_markup_in_a_name_is_a_name(screen: str) -> None:
    make, _ = SCREENS[screen]
    for name in MARKUP:
        base = samples.snapshot()
        run = replace(base.runs[0], run_id="run-0", name=f"<{name}>", config={name: name})
        finding = Finding("A07", "error", "certain", f"<{name}>", (Fact(name, 0, name),), name, name, name, run="run-0")
        view = view_of(replace(base, runs=(run,), points=()), findings=(finding,))
        app = make(view)
        async with app.run_test(size=SIZES[0]) as pilot:
            await pilot.pause()
            assert f"<{name}>" in text_of(app)


# ---- what the screens are made of


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_a_cleaned_text_moves_no_cursor_and_fits(text: str) -> None:
    shown = clean(text)
    assert not {unicodedata.category(char) for char in shown} & FORBIDDEN
    assert clean(shown) == shown
    assert len(shown) <= (MARKS_MAX + 1) * max(1, text_width(shown)) + MARKS_MAX
    drawn = line((shown, "text"))
    assert plain(ascii_line(drawn)).isascii()
    assert line_width(ascii_line(drawn)) == line_width(drawn)
    for width in (30, 76):
        assert all(line_width(part) <= width for part in wrapped(text, width, first="· ", rest="  "))
        rows = pairs([(text, text), ("lr", "0.1")], width)
        assert all(line_width(part) <= width for part in rows)
        finding = Finding("A07", "error", "certain", text, (Fact(text, 0, text),), text, text, text)
        assert all(line_width(part) <= width for part in finding_lines(finding, samples.snapshot(), width))


def test_wrapping_by_cells_loses_nothing() -> None:
    text = "損失は三つのGPUで違う " * 6 + "x" * 50
    pieces = [plain(part) for part in wrapped(text, 24)]
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert max(map(text_width, pieces)) <= 24
    assert [plain(part).rstrip() for part in wrapped("é" + " " * 30 + "\u0301", 24)] == ["é"]
    code = [plain(part) for part in wrapped("    two 損失 three four five", 14)]
    assert code == ["    two 損失", "    three four", "    five"]


def test_a_moment_that_no_calendar_has_is_unknown() -> None:
    assert units.clock(None) == units.UNKNOWN
    for moment in (float("nan"), float("inf"), -float("inf"), 1e308, -1e308):
        assert units.clock(moment) == units.UNKNOWN
    assert len(units.clock(samples.EPOCH)) == 8
    assert units.clock(0.0, "%Y") in ("1970", "1969")


@pytest.mark.parametrize("values", [(1e308, -1e308), (1.7e308,) * 3, (5e-324, 1e-308), (0.0, 5e-324), (-1e308, 0.0, 1e-308)])
@pytest.mark.parametrize("x", [0.0, 2.0**63, -(2.0**63)])
@pytest.mark.parametrize("log", [False, True])
def test_a_chart_of_extreme_values_can_be_drawn(values: tuple[float, ...], x: float, log: bool) -> None:
    history = History()
    steps = tuple(int(x) + number for number in range(len(values)))
    points = tuple(Points("run-1", rank, "loss", steps, tuple(map(float, steps)), values) for rank in range(2))
    history.observe(samples.snapshot(points=points))
    series = history.metric("run-1", "loss")
    for per_rank in (False, True):
        for kind in ("step", "time"):
            start, end = large_chart.span_of(series, kind) or (0.0, 0.0)
            curves, marks = large_chart.curves_of(series, x_kind=kind, start=start, end=end, columns=80, per_rank=per_rank)
            lines = large_chart.draw(large_chart.Chart(60, 12, curves, start, end, kind, marks, log=log))
            assert {line_width(part) for part in lines} == {60}


def test_a_value_without_a_place_is_left_out() -> None:
    series = Series()
    for x in (float("nan"), float("inf"), -float("inf"), 2 * X_MAX):
        series.append(x, 1.0)
    assert series.span() is None
    series.append(X_MAX, 1.0)
    series.append(-(2.0**63), float("nan"))
    assert series.span() == (-(2.0**63), X_MAX)
    assert series.columns(-(2.0**63), X_MAX, 4)[3] is not None


@given(seed=st.integers(0, 2**32))
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
def test_odd_snapshots_pass_through_the_stream(seed: int) -> None:
    shot = Odd(seed).snapshot()
    line_ = shot.to_json().encode()
    assert Snapshot.from_json(line_).to_json().encode() == line_


@given(seed=st.integers(0, 2**32))
@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
def test_jobs_of_any_speed_compare(seed: int) -> None:
    view = Odd(seed).view()
    odd = [replace(job, name=TEXTS[seed % len(TEXTS)], problem=TEXTS[seed % 7]) for job in JOBS]
    found = drawn_jobs.compare(odd, view.snapshot, view.history)
    for job in odd:
        drawn = drawn_jobs.row(job, found[job.id], view.snapshot, 120, view.settings.ascii)
        assert line_width(drawn) <= 120
        for part in (drawn, drawn_jobs.log_subtitle(job)):
            assert not {unicodedata.category(char) for char in plain(part)} & FORBIDDEN
    reached = comparison.reached_by(odd, odd[0], view.snapshot, view.history)
    for part in (*comparison.table(reached, view.snapshot, 100, False), *comparison.chart(reached, 100, False)):
        assert line_width(part) <= 100


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("values", [(MAX, MAX), (MAX, 5e-324), (5e-324, 5e-324), (1e308, MAX)])
def test_a_spread_between_distant_steps_stays_within_its_values(values: tuple[float, float], log: bool) -> None:
    between = large_chart.bridged([values[0], *[None] * 1000, values[1]], log)
    assert all(value is not None and min(values) <= value <= max(values) for value in between)


async def test_a_run_is_drawn_over_time_whatever_the_clock_says() -> None:
    for moment in (float("nan"), float("inf"), 1e308, -1.0, samples.EPOCH):
        view = view_of(samples.snapshot(time=moment))
        app: App[None] = ScreenApp(RunScreen("run-1"), view)
        async with app.run_test(size=SIZES[0]) as pilot:
            await pilot.press("x")
            await pilot.pause()
            check(app)
        app = DashboardApp(view)
        async with app.run_test(size=SIZES[1]) as pilot:
            await pilot.pause()
            check(app)


def test_the_past_of_any_value() -> None:
    values = [None, float("nan"), float("inf"), -float("inf"), 1e308, 1.0, 0.0]
    assert plain(row_of_past(values, ascii_only=True)) == "  #_##_"
    assert len(plain(row_of_past([1e308, -1e308]))) == 2
    assert all(len(plain(row)) == len(values) for row in area(values, 3))


def test_numbers_of_every_size_have_a_text() -> None:
    for value in NUMBERS:
        for form in (units.metric, units.count, units.percent, units.bytes_text, units.gib, units.rate, units.duration):
            assert form(value)
