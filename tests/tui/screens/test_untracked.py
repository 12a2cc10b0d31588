"""The screen of an untracked run: its head, a heat row per rank, and ranks that come and go."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest

from gputop.doctor.findings.finding import Finding
from gputop.history.history import History
from gputop.jobs import identity
from gputop.settings.values import Settings
from gputop.snapshot import Ancestor, DeviceUse, Process, ProcessCurve, ProcessRank, ProcessRun, Rank, Snapshot
from gputop.tui.app import GputopApp
from gputop.tui.drawing.untracked.over_time import stretch_of
from gputop.tui.screens.dashboard import DashboardScreen
from gputop.tui.screens.run.screen import RunScreen
from gputop.tui.screens.signals import SignalScreen
from gputop.tui.screens.stop import StopScreen
from gputop.tui.screens.untracked import UntrackedScreen
from gputop.tui.screens.where import WhereScreen
from gputop.tui.state.view import View
from tests import samples
from tests.tui.kit import ScreenApp, StillFeed, text_of
from tests.tui.screens.test_signals import Child, children

assert children

BASE = samples.snapshot(runs=(), points=())
GIB = samples.GIB


def rank(number: int, device: int | None = None) -> ProcessRank:
    uuids = () if device is None else (BASE.devices[device].uuid,)
    return ProcessRank(4000 + number, number, number, uuids)


def process(found: ProcessRank, tick: int) -> Process:
    uses = tuple(DeviceUse(uuid, 20 * GIB, 90.0, "C") for uuid in found.devices or ())
    started = samples.EPOCH - 300
    return Process(found.pid, uses, user="ada", cpu_percent=50.0 + tick, thread_count=70 + tick, started_at=started)


def run_of(count: int = 4, **changes: object) -> ProcessRun:
    made = ProcessRun(
        key="launcher:3999",
        name="train.py",
        ranks=tuple(rank(number, number % 8) for number in range(count)),
        launcher=Ancestor(3999, "torchrun"),
        world_size=count,
        local_world_size=count,
        user="ada",
        started_at=samples.EPOCH - 300,
        command=("train.py",),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def seen(tick: int, *runs: ProcessRun, **changes: object) -> Snapshot:
    processes = tuple(process(found, tick) for run in runs for found in run.ranks)
    return samples.snapshot(tick, **{"runs": (), "points": (), "process_runs": runs, "processes": processes} | changes)


def view_of(run: ProcessRun, ticks: int = 60, *, findings: tuple[Finding, ...] = (), **settings: object) -> View:
    history = History()
    snapshots = [seen(tick, run) for tick in range(ticks)]
    for snapshot in snapshots:
        history.observe(snapshot)
    return View(snapshots[-1], history, findings, Settings(**settings))  # type: ignore[arg-type]


def after(view: View, snapshot: Snapshot) -> View:
    view.history.observe(snapshot)
    return replace(view, snapshot=snapshot)


def app_of(*snapshots: Snapshot) -> GputopApp:
    return GputopApp(StillFeed(*snapshots), Settings())  # type: ignore[arg-type]


async def shown(run: ProcessRun, size: tuple[int, int] = (120, 40), view: View | None = None) -> str:
    view = view or view_of(run)
    app = ScreenApp(UntrackedScreen(run, view), view)
    async with app.run_test(size=size) as pilot:
        await pilot.pause()
        return text_of(app)


def row_of(text: str, label: str) -> str:
    return next(row for row in text.splitlines() if row.startswith(f" {label}"))


async def test_enter_on_the_training_pane_opens_it_and_escape_returns() -> None:
    app = app_of(seen(0, run_of()), seen(1, run_of()))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await pilot.press("2", "enter")
        await pilot.pause()
        assert isinstance(app.screen, UntrackedScreen)
        assert "train.py" in text_of(app)
        await pilot.press("w")
        await pilot.pause()
        assert isinstance(app.screen, WhereScreen)
        await pilot.press("escape", "y")
        await pilot.pause()
        assert app.clipboard == "4000 4001 4002 4003"
        await pilot.press("escape")
        await pilot.pause()
        assert isinstance(app.screen, DashboardScreen)


async def test_a_click_opens_the_run_of_that_line_and_n_the_next() -> None:
    other = run_of(1, key="pid:7", name="infer.py", launcher=None, ranks=(ProcessRank(7),))
    app = app_of(seen(0, run_of(), other))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        place = next(y for y, row in enumerate(text_of(app).splitlines()) if row.lstrip().startswith("infer.py"))
        await pilot.click(offset=(5, place))
        await pilot.pause()
        assert isinstance(app.screen, UntrackedScreen)
        assert app.screen.run_shown == other
        await pilot.press("n")
        await pilot.pause()
        assert app.screen.run_shown == run_of()


async def test_it_is_in_the_list_of_runs_and_enter_opens_it_there() -> None:
    """Also beside a run with a curve, where the dashboard shows that one."""
    other = run_of(1, key="pid:7", name="infer.py", launcher=None, ranks=(ProcessRank(7),))
    curve = samples.run()
    app = app_of(seen(0, run_of(), other, runs=(curve,)))
    feed: Any = app.feed
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        await pilot.press("o")
        await pilot.pause()
        text = text_of(app)
        assert curve.name in text
        row = next(line for line in text.splitlines() if "infer.py" in line)
        assert row.split()[1:4] == ["infer.py", "N/A", "untracked"]
        screen = app.screen
        assert isinstance(screen, RunScreen)
        await pilot.press("up", "up")
        await pilot.pause()
        assert screen.run_id == "launcher:3999"
        text = text_of(app)
        assert "For its loss, start it the next time with" in text
        assert "Enter shows what its processes do." in text
        assert "Enter processes" in text.splitlines()[-1]
        assert not [asked for asked in feed.asked if "launcher:3999" in getattr(asked, "run_ids", ())], "it is not stored"
        await pilot.press("y")
        assert app.clipboard == "4000 4001 4002 4003"
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, UntrackedScreen)
        assert app.screen.run_shown == run_of()


async def test_the_list_shows_its_curve_once_there_is_one_and_forgets_it_when_it_ends() -> None:
    view = view_of(run_of())
    screen = RunScreen("launcher:3999", view)
    app = ScreenApp(screen, view)
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        assert "4 ranks  running" in text_of(app)
        curve = replace(samples.run(), run_id="pid-4000-1")
        with_curve = run_of(run_id=curve.run_id, curves=(ProcessCurve(curve.run_id, "its output"),))
        app.give(after(view, seen(60, with_curve, runs=(curve,), points=samples.loss_points(1, run_id=curve.run_id))))
        await pilot.pause()
        assert screen.run_id == curve.run_id
        assert screen.chosen_run is not None
        assert screen.chosen_run.tags == (*curve.tags, "untracked")
        assert "loss" in text_of(app)
    screen = RunScreen("launcher:3999", view)
    app = ScreenApp(screen, view)
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        app.give(after(view, seen(60)))
        await pilot.pause()
        assert "This run is no longer listed." in text_of(app)


@pytest.mark.parametrize("launched", [True, False], ids=["torchrun", "no launcher"])
async def test_k_on_it_and_on_where_it_is_asks_what_to_stop(launched: bool, children: list[Child]) -> None:
    """Its launcher gets the signal; of ranks without one, each may get one."""
    launcher, *ranks = (child.pid for child in children)
    run = run_of(ranks=tuple(replace(rank(number), pid=pid) for number, pid in enumerate(ranks)))
    above = Ancestor(launcher, "torchrun") if launched else None
    processes = (replace(found, uid=os.getuid(), started_at=None, launcher=above) for found in seen(0, run).processes)
    snapshot = seen(0, run, processes=tuple(processes))
    app = app_of(replace(snapshot, host=replace(snapshot.host, boot_id=identity.boot_id())))
    copied = " ".join(map(str, ranks))
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await pilot.press("2")
        for key, screen in (("enter", UntrackedScreen), ("w", WhereScreen)):
            await pilot.press(key)
            await pilot.pause()
            assert isinstance(app.screen, screen)
            await pilot.press("y", "k")
            await pilot.pause()
            assert app.clipboard == copied
            shown = " ".join(text_of(app).split())
            if launched:
                assert isinstance(app.screen, StopScreen)
                assert (app.screen.target.pid, app.screen.target.refusal) == (launcher, "")
                assert "SIGTERM goes to torchrun, and its 2 ranks end with it." in shown
            else:
                assert isinstance(app.screen, SignalScreen)
                assert [(to.pid, to.refusal) for to in app.screen.recipients] == [(pid, "") for pid in ranks]
            await pilot.press("escape")
            await pilot.pause()
    assert all(child.poll() is None for child in children), "nothing is signaled without a yes"


async def test_the_head_says_what_the_run_is_and_how_to_track_it() -> None:
    text = await shown(run_of())
    for words in (
        "train.py  not tracked",
        "torchrun PID 3999",
        "4 ranks of world size 4",
        "up 5m59s",
        f"ada on {BASE.host.hostname}",
        "GPU 0-3",
        "gputop run -- torchrun … train.py",
    ):
        assert words in text, words


async def test_every_rank_has_a_row_of_each_reading() -> None:
    text = await shown(run_of())
    rows = [row.split()[:5] for row in text.splitlines() if row.startswith(" r")]
    assert [row[:4] for row in rows] == [
        [f"r{n}", "GPU", str(n), value] for value in ("98%", "20.0", "109%", "129") for n in range(4)
    ]
    assert "1m ago" in text
    assert text.count("▇") > 4 * 5


async def test_what_is_not_known_is_not_available() -> None:
    run = run_of(2, ranks=(replace(rank(0), devices=None), rank(1)))
    view = view_of(run)
    snapshot = replace(view.snapshot, processes=(replace(view.snapshot.processes[0], cpu_percent=None, thread_count=None),))
    text = await shown(run, view=replace(view, snapshot=snapshot))
    rows = [row.split()[1] for row in text.splitlines() if row.startswith((" r0", " r1"))]
    assert rows == ["N/A"] * 8
    assert "GPU N/A" in text


async def test_ranks_come_and_go() -> None:
    four = view_of(run_of(4))
    screen = UntrackedScreen(run_of(4), four)
    app = ScreenApp(screen, four)
    async with app.run_test(size=(120, 50)) as pilot:
        await pilot.pause()
        less = run_of(4, ranks=tuple(rank(number, number) for number in (0, 1, 3)))
        app.give(after(four, seen(60, less)))
        await pilot.pause()
        text = text_of(app)
        assert row_of(text, "r2 GPU 2").split()[3] == "gone"
        assert "▇" in row_of(text, "r2 GPU 2")
        assert row_of(text, "r3 GPU 3").split()[3] == "98%"
        assert "local rank 2 not seen on this machine" in text
        again = run_of(4, ranks=(*less.ranks[:2], replace(rank(2, 2), pid=4102), less.ranks[2]))
        app.give(after(four, seen(61, again)))
        await pilot.pause()
        text = text_of(app)
        assert "gone" not in text
        assert sum(row.startswith(" r2 ") for row in text.splitlines()) == 4


async def test_a_run_that_ends_keeps_its_last_values() -> None:
    view = view_of(run_of())
    app = ScreenApp(UntrackedScreen(run_of(), view), view)
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        app.give(after(view, seen(60)))
        await pilot.pause()
        text = text_of(app)
        assert "It has ended, or gputop tracks it now" in text
        assert text.count("gone") == 16
        assert "▇" in row_of(text, "r0 GPU 0")
        rows = [row for row in text.splitlines() if row.startswith(" r")]
        app.give(after(view, seen(600)))
        await pilot.pause()
        assert [row for row in text_of(app).splitlines() if row.startswith(" r")] == rows


@pytest.mark.parametrize("begun_s", [-250.0, -900.0], ids=["its own", "an older run with the same PIDs"])
async def test_enter_opens_the_curve_of_a_run_that_is_tracked_by_now(begun_s: float) -> None:
    feed: Any = StillFeed(seen(0, run_of(starting=True)))
    app = GputopApp(feed, Settings())
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        await pilot.press("2", "enter")
        await pilot.pause()
        assert isinstance(app.screen, UntrackedScreen)
        feed.waiting = [seen(1, runs=(samples.run(created_at=samples.EPOCH + begun_s),), points=samples.loss_points())]
        app.on_feed_arrived()
        await pilot.pause()
        is_own = begun_s > -300
        assert ("gputop tracks it now: Enter shows its curve" in text_of(app)) is is_own
        await pilot.press("enter")
        await pilot.pause()
        assert isinstance(app.screen, RunScreen) is is_own


async def test_a_run_with_a_curve_that_ends_is_not_said_to_run() -> None:
    """Its screen said "running" for as long as it was open, and its time went on."""
    curve = samples.run(run_id="pid-3999-1", name="train.py", created_at=samples.EPOCH - 300)
    found = run_of(run_id=curve.run_id, curves=(ProcessCurve(curve.run_id, "its output"),))
    view = after(view_of(found), seen(60, found, runs=(curve,)))
    app = ScreenApp(RunScreen(curve.run_id, view), view)
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        assert "  running" in text_of(app).splitlines()[0]
        app.give(after(view, seen(61)))
        await pilot.pause()
        text = text_of(app)
        assert "ended or tracked now" in text.splitlines()[0]
        assert "running" not in text
        assert "so far" not in text
        assert "1 240" in text, "its last values stay"


async def test_many_ranks_fold_all_readings_but_one() -> None:
    view = view_of(run_of(64))
    app = ScreenApp(UntrackedScreen(run_of(64), view), view)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        text = text_of(app)
        for label in ("GPU memory mean", "CPU mean", "threads mean"):
            assert row_of(text, label)
        assert "utilization of its GPUs, by rank" in text
        await pilot.press("h")
        await pilot.pause()
        text = text_of(app)
        assert row_of(text, "GPU mean")
        assert "GPU memory, by rank" in text
        await pilot.press("tab", "end")
        await pilot.pause()
        assert row_of(text_of(app), "r63 GPU 7").split()[3:5] == ["20.0", "GiB"]


async def test_what_the_doctor_found_is_below() -> None:
    mine = Finding("A07", "error", "certain", "All ranks run on GPU 0", (), "", "set the device", pids=(4001,))
    other = Finding("B01", "error", "certain", "Another run is slow", (), "", "look at it", pids=(9,))
    text = await shown(run_of(), view=view_of(run_of(), findings=(other, mine)))
    assert "All ranks run on GPU 0" in text
    assert "Another run is slow" not in text


async def test_with_a_curve_its_screen_shows_the_rows_below_the_chart() -> None:
    curve = replace(samples.run(), run_id="pid-4000-1")
    curve = replace(curve, ranks=(curve.ranks[0], *(Rank(number, 4000 + number, state="running") for number in (1, 2, 3))))
    run = run_of(run_id=curve.run_id, curves=(ProcessCurve(curve.run_id, "its output"),))
    history = History()
    points = samples.loss_points(1, run_id=curve.run_id)
    snapshots = [seen(tick, run, runs=(curve,), points=points if not tick else ()) for tick in range(60)]
    for snapshot in snapshots:
        history.observe(snapshot)
    view = View(snapshots[-1], history, run_id=curve.run_id)
    app = ScreenApp(RunScreen(curve.run_id, view), view)
    async with app.run_test(size=(160, 60)) as pilot:
        await pilot.pause()
        text = text_of(app)
        assert text.index("loss") < text.index("CPU, 100% is one core, by rank")
        assert "r3  109%" in text
        assert "torchrun, 4 ranks  running" in text.splitlines()[0]
        await pilot.press("h")
        await pilot.pause()
        assert "GPU memory, by rank" in text_of(app)


@pytest.mark.parametrize("settings", [{"ascii": True}, {"ascii": True, "color": False}], ids=["ascii", "monochrome"])
async def test_in_ascii(settings: dict[str, object]) -> None:
    text = await shown(run_of(), (80, 24), view_of(run_of(), **settings))
    assert text.isascii()
    assert row_of(text, "r3 GPU 3")


def test_no_more_is_kept_than_the_ranks_of_untracked_runs() -> None:
    history = History()
    tracked = samples.snapshot()
    history.observe(replace(tracked, processes=tuple(replace(each, cpu_percent=5.0) for each in tracked.processes)))
    assert all(history.rank(each, "cpu_percent") is None for each in tracked.processes)
    snapshot = seen(1, run_of(1, ranks=(rank(0),)))
    history.observe(snapshot)
    series = history.rank(snapshot.processes[0], "thread_count")
    assert series is not None
    assert series.last == 71


def test_the_rows_rarely_move_from_tick_to_tick() -> None:
    view = view_of(run_of(1))
    ends = set()
    for tick in range(300, 320):
        snapshot = replace(view.snapshot, time=samples.EPOCH + tick)
        stretch = stretch_of(replace(view, snapshot=snapshot), samples.EPOCH, None, 60)
        column = (stretch.end - stretch.start) / 60
        assert stretch.start - column < samples.EPOCH
        assert 0 < stretch.end - snapshot.time <= column
        assert stretch.end - stretch.start < 1.1 * (tick + 1)
        ends.add(stretch.end)
    assert len(ends) < 8


async def test_without_a_value_nothing_says_what_fills_a_cell() -> None:
    without = run_of(2, ranks=(ProcessRank(4001), ProcessRank(4002)))
    text = await shown(without)
    heads = [row.split(" by process")[1] for row in text.splitlines() if " by process" in row]
    assert heads == ["", "", ", full at 109%", ", full at 129"]
