"""The dashboard with keys and mouse, at each size; and what it looks like."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from textual.geometry import Region
from textual.screen import Screen
from textual.widget import Widget

from gputop.run_questions import GpusAnswer, GpusQuestion
from gputop.tui.drawing.line import plain
from gputop.tui.screens import dashboard as dashboard_module
from gputop.tui.screens.dashboard import DashboardScreen
from gputop.tui.screens.stop import StopScreen
from gputop.tui.widgets.requests import ProcessChosen, RunChosen, RunOpened, SettingsChanged
from tests import samples
from tests.patience import DEADLINE_S
from tests.tui import dashboards
from tests.tui.dashboards import DashboardApp
from tests.tui.kit import whole_app


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def row_with(app: DashboardApp, text: str) -> str:
    return next(row for row in app.text() if text in row)


async def test_wide_screen_shows_all_four_panes() -> None:
    app = DashboardApp(dashboards.one_gpu())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        shown = app.text()
        assert len(shown) == 50
        for part in (
            "1 GPUs",
            "2 Training: resnet18-ddp",
            "3 Processes",
            "4 Doctor: 2 problems",
            "1 of 8 GPUs work  Only GPU 0 is used",
        ):
            assert row_with(app, part)
        assert "✗ A07 Only GPU 0 is used: all 4 ranks run on it" in row_with(app, "✗")
        assert row_with(app, "q quit").startswith(" l launch  d doctor  o runs  Enter details  / filter  Space tag")


async def test_a_medium_screen_holds_all_four_panes() -> None:
    app = DashboardApp(dashboards.one_gpu())
    async with app.run_test(size=(100, 30)) as pilot:
        await pilot.pause()
        for part in (
            "1 GPUs",
            "2 Training",
            "3 Processes",
            "4 Doctor",
            "1 of 8 GPUs work",
            "✗ A07 Only GPU 0 is used",
            "4000 ada",
        ):
            assert row_with(app, part)


async def test_small_screen_shows_gpus_balance_and_headline() -> None:
    app = DashboardApp(dashboards.one_gpu())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        for index in range(8):
            assert any(f" {index} " in row[:7] for row in app.text())
        for part in (
            "1 of 8 GPUs work  Only GPU 0 is used",
            "✗ A07 Only GPU 0 is used: all 4 ranks run on it",
            "fix: torch.cuda",
            "q quit",
        ):
            assert row_with(app, part)
        assert app.text()[2].startswith("─ 1 GPUs "), "the rules name the panes: no other line does"
        assert not any("Processes" in row for row in app.text())
        assert app.text()[-1].startswith(" 3 processes  l launch  o runs  Enter details  : actions")
        await pilot.click(app.dashboard.keys, offset=(4, 0))
        await pilot.pause()
        assert row_with(app, "▸ 3 Processes")
        assert app.text()[-1].startswith(" 1-4 panes  l launch  o runs  / filter  k stop")


async def test_digits_and_tab_change_the_pane_of_a_small_screen() -> None:
    app = DashboardApp(dashboards.healthy())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("3")
        await pilot.pause()
        assert row_with(app, "▸ 3 Processes · 4")
        assert row_with(app, "4003 ada")
        await pilot.press("tab")
        await pilot.pause()
        assert row_with(app, "No problem found")
        await pilot.press("tab", "tab")
        await pilot.pause()
        assert row_with(app, "▸ 2 Training")
        assert row_with(app, "└┬")
        await pilot.press("shift+tab")
        await pilot.pause()
        assert row_with(app, "▸ 1 GPUs")
        assert row_with(app, "─ 2 Training")


async def test_a_small_screen_marks_the_pane_with_the_cursor_and_counts_the_gpus() -> None:
    app = DashboardApp(dashboards.healthy())
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert row_with(app, "▸ 3 Processes")
        assert row_with(app, "─ 1 GPUs ")
        await pilot.press("1")
        await pilot.pause()
        assert row_with(app, "▸ 1 GPUs")
        assert row_with(app, "─ 3 Processes")
        await pilot.press("tab", "tab")
        await pilot.pause()
        assert row_with(app, "▸ 3 Processes")
    view = dashboards.healthy()
    alone = replace(view, snapshot=replace(view.snapshot, devices=view.snapshot.devices[:1]))
    app = DashboardApp(alone)
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        assert row_with(app, "─ 1 GPU ─")


async def test_tab_cycles_through_the_panes_of_a_wide_screen() -> None:
    app = DashboardApp(dashboards.healthy())
    async with app.run_test(size=(160, 50)) as pilot:
        seen = []
        for _ in range(4):
            await pilot.press("tab")
            seen.append(app.focused.id if app.focused else None)
        assert seen == ["doctor", "gpus", "training", "processes"]


async def test_filter_takes_letters_and_escape_clears_it() -> None:
    app = DashboardApp(dashboards.healthy())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.press("slash", *"4002t")
        await pilot.pause()
        assert app.dashboard.processes.order.filter.text == "4002t"
        assert not app.dashboard.processes.order.tree
        assert row_with(app, 'No process matches "4002t"')
        assert row_with(app, "filter: 4002t_")
        await pilot.press("backspace", "enter")
        await pilot.pause()
        assert row_with(app, "4002 ada")
        assert not any("4001 ada" in row for row in app.text())
        assert row_with(app, "/4002")
        await pilot.press("escape")
        await pilot.pause()
        assert row_with(app, "4001 ada")


async def test_a_filter_that_keeps_no_process_leaves_none_to_stop() -> None:
    """The run that the screen shows is another one: the user looks at a table that is empty."""
    app = whole_app()
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        await pilot.press("slash", *"pid:99", "enter", "k")
        await pilot.pause()
        assert isinstance(app.screen, DashboardScreen)
        await pilot.press("escape", "k")
        await pilot.pause()
        assert isinstance(app.screen, StopScreen)


@pytest.mark.parametrize(("key", "name"), [("f1", "help"), ("f2", "settings")])
async def test_a_function_key_opens_its_screen_while_a_filter_is_typed(key: str, name: str) -> None:
    app = whole_app()
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        await pilot.press("slash", *"rank:2", key)
        await pilot.pause()
        assert getattr(app.screen, "NAME", None) == name
        await pilot.press("escape")
        await pilot.pause()
        assert isinstance(app.screen, DashboardScreen)
        assert app.screen.processes.filter_text() == "rank:2"


async def test_a_wrong_filter_is_explained_beside_it_while_the_last_right_one_holds() -> None:
    app = DashboardApp(dashboards.healthy())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.press("slash", *"rank:2")
        await pilot.pause()
        assert "Processes · 1 of 4  /rank:2" in row_with(app, "filter: rank:2_")
        assert row_with(app, "4002 ada")
        await pilot.press("enter", "slash", *"x")
        await pilot.pause()
        assert "filter: rank:2x_  Enter keeps" in row_with(app, "Processes · 1 of 4  /rank:2")
        assert row_with(app, "rank:2x needs numbers, such as rank:0")
        assert row_with(app, "4002 ada")
        await pilot.click(app.dashboard.processes, offset=(10, 3))
        assert app.dashboard.chosen_process is not None
        assert app.dashboard.chosen_process.pid == 4002
        await pilot.press("enter")
        await pilot.pause()
        assert "filter: rank:2x  Esc clears" in row_with(app, "Processes · 1 of 4  /rank:2")
        assert row_with(app, "rank:2x needs numbers")
        await pilot.press("escape")
        await pilot.pause()
        assert "filter" not in row_with(app, "Processes · 4 ")
        assert row_with(app, "4001 ada")


async def test_sort_invert_and_tree() -> None:
    app = DashboardApp(dashboards.healthy())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.press("less_than_sign")
        assert app.dashboard.processes.order.sort == "run"
        await pilot.press("greater_than_sign", "s", "f6")
        assert app.dashboard.processes.order.sort == "sm"
        await pilot.press("I", "t")
        await pilot.pause()
        assert app.dashboard.processes.order.invert
        assert row_with(app, "resnet18-ddp · 4 ranks · running")
        assert row_with(app, "└ python -u train.py")


async def test_cursor_stays_on_its_process() -> None:
    app = DashboardApp(dashboards.healthy())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.press("down", "down", "enter")
        await pilot.press("I")
        await pilot.press("enter")
        await pilot.pause()
        assert [message.pid for message in app.asked if isinstance(message, ProcessChosen)] == [4002, 4002]
        assert app.dashboard.chosen_process is not None
        assert app.dashboard.chosen_process.pid == 4002


async def test_cursor_stays_on_top_until_the_person_moves_it() -> None:
    """A process that happened to be alone at first must not keep the cursor when a run starts above it."""
    view = dashboards.healthy()
    processes = view.snapshot.processes
    app = DashboardApp(replace(view, snapshot=replace(view.snapshot, processes=processes[2:])))
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        assert app.dashboard.chosen_process is not None
        assert app.dashboard.chosen_process.pid == 4002
        app.dashboard.show(view)
        await pilot.pause()
        assert app.dashboard.chosen_process is not None
        assert app.dashboard.chosen_process.pid == 4000
        await pilot.press("down", "up")
        app.dashboard.show(replace(view, snapshot=replace(view.snapshot, processes=processes[1:])))
        app.dashboard.show(view)
        await pilot.pause()
        assert app.dashboard.chosen_process is not None
        assert app.dashboard.chosen_process.pid == 4001


async def test_mouse_sorts_by_a_heading_and_opens_a_process() -> None:
    app = DashboardApp(dashboards.healthy())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        pane = app.dashboard.processes
        await pilot.click(pane, offset=(1 + 6, 1))
        assert pane.order.sort == "pid"
        await pilot.click(pane, offset=(10, 3), times=2)
        await pilot.pause()
        assert [message.pid for message in app.asked if isinstance(message, ProcessChosen)] == [4001]


async def test_enter_on_training_opens_the_run() -> None:
    app = DashboardApp(dashboards.healthy())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.press("2", "enter")
        await pilot.pause()
        assert [message.run_id for message in app.asked if isinstance(message, RunOpened)] == ["run-1"]


async def test_a_hint_that_does_not_fit_beside_a_runs_title_is_left_out_whole() -> None:
    runs = (samples.run(name="lenet-ddp"), samples.run(run_id="run-2", name="second"))
    app = DashboardApp(dashboards.view_of([samples.snapshot(runs=runs)]))
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.pause()
        title = row_with(app, "2 Training: ")
        assert "run 1 of 2" in title
        assert "…" not in title


async def test_n_asks_for_the_next_run() -> None:
    runs = (samples.run(), samples.run(run_id="run-2", name="second"))
    app = DashboardApp(dashboards.view_of([samples.snapshot(runs=runs)]))
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        assert row_with(app, "run 1 of 2  n next run")
        await pilot.press("n")
        await pilot.press("N")
        await pilot.pause()
        assert [message.run_id for message in app.asked if isinstance(message, RunChosen)] == ["run-2", "run-2"]
        app.dashboard.show(replace(app.view, run_id="run-2"))
        await pilot.pause()
        assert row_with(app, "Training: second")


async def test_keys_change_how_things_are_drawn() -> None:
    app = DashboardApp(dashboards.healthy())
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        assert not any("tensor 41%" in row for row in app.text())
        await pilot.press("c")
        await pilot.pause()
        assert app.view.settings.density == "full"
        assert row_with(app, "tensor 41%")
        await pilot.press("c")
        await pilot.press("Y", "r", "right_square_bracket", "right_square_bracket", "left_square_bracket")
        await pilot.pause()
        changed = app.view.settings
        assert (changed.log_axis, changed.per_rank, changed.smoothing) == (True, True, 0.3)
        assert all(isinstance(message, SettingsChanged) for message in app.asked)


async def test_a_new_view_keeps_the_scroll_position_and_the_focus() -> None:
    devices = tuple(samples.device(index) for index in range(32))
    app = DashboardApp(dashboards.view_of([samples.snapshot(devices=devices)], density="full"))
    async with app.run_test(size=(160, 40)) as pilot:
        await pilot.press("1", "pagedown")
        await pilot.pause()
        first = app.dashboard.gpus.first
        assert first > 0
        app.dashboard.show(dashboards.view_of([samples.snapshot(1, devices=devices)], density="full"))
        await pilot.pause()
        assert app.dashboard.gpus.first == first
        assert app.focused is app.dashboard.gpus
        assert row_with(app, "4 of the run's 4 GPUs work")


async def test_sizes_change_while_running() -> None:
    app = DashboardApp(dashboards.one_gpu())
    async with app.run_test(size=(160, 50)) as pilot:
        for size in ((80, 24), (100, 30), (200, 60), (40, 10), (20, 5), (160, 50)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            assert [len(row) for row in app.text()] == [size[0]] * size[1]
        assert row_with(app, "4 Doctor: 2 problems")


async def test_an_idle_tick_repaints_the_line_of_the_clock_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    idle = tuple(samples.idle_device(index) for index in range(8))
    snapshots = [samples.snapshot(tick, devices=idle, processes=(), runs=(), points=()) for tick in range(13)]
    app = DashboardApp(dashboards.view_of(snapshots[:11]))
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        before = app.text()
        note_changed, changed = app.dashboard.note_changed, list[tuple[Widget, Sequence[Region]]]()

        def noted(pane: Widget, regions: Sequence[Region]) -> None:
            changed.append((pane, regions))
            note_changed(pane, regions)

        monkeypatch.setattr(app.dashboard, "note_changed", noted)
        app.dashboard.show(dashboards.view_of(snapshots[:12]))
        ((pane, (region,)),) = changed
        assert pane is app.dashboard.header
        assert (region.y, region.height) == (0, 1)
        await pilot.pause()
        assert app.text()[1:] == before[1:]


async def test_a_new_reading_is_sent_in_one_frame_before_anything_else_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    snapshots = [samples.snapshot(tick) for tick in range(13)]
    app = DashboardApp(dashboards.view_of(snapshots[:11]))
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        sent: list[Any] = []
        monkeypatch.setattr(app, "_display", lambda screen, update: sent.append(update))
        app.dashboard.show(dashboards.view_of(snapshots[:12]))
        assert [update is not None for update in sent] == [True]
        await pilot.pause()
        assert [update for update in sent[1:] if update is not None] == []


async def test_what_changes_below_another_screen_is_shown_when_that_closes() -> None:
    snapshots = [samples.snapshot(tick) for tick in range(13)]
    app = DashboardApp(dashboards.view_of(snapshots[:11]))
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        dashboard, before = app.dashboard, app.text()
        await app.push_screen(Screen())
        dashboard.show(dashboards.view_of(snapshots[:12]))
        app.view = dashboards.view_of(snapshots[:12])
        await app.pop_screen()
        await pilot.pause()
        assert app.text() != before


async def test_while_nothing_arrives_only_the_header_ages() -> None:
    view = replace(dashboards.healthy(), stale_s=4.0)
    app = DashboardApp(view)
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        drawn = [pane.view for pane in app.dashboard.panes]
        app.dashboard.show_age(replace(view, stale_s=5.0))
        await pilot.pause()
        assert "STALE 5s" in app.text()[0]
        assert all(pane.view is known for pane, known in zip(app.dashboard.panes, drawn, strict=True))


async def test_header_of_a_stale_simulated_machine() -> None:
    view = dashboards.healthy()
    host = replace(view.snapshot.host, simulated=True)
    app = DashboardApp(replace(view, snapshot=replace(view.snapshot, host=host), stale_s=4.0, paused=True))
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        assert "SIMULATED PAUSED STALE 4s" in app.text()[0]
        assert plain(app.dashboard.header.lines[0]) == app.text()[0]


LOOKS = {
    "wide": ((160, 50), dashboards.one_gpu, "gputop-dark"),
    "column": ((100, 30), dashboards.one_gpu, "gputop-dark"),
    "small": ((80, 24), dashboards.one_gpu, "gputop-dark"),
    "trouble_light": ((160, 50), dashboards.troubled, "gputop-light"),
    "small_light": ((80, 24), dashboards.one_gpu, "gputop-light"),
    "trouble_colorblind": ((160, 50), dashboards.troubled, "gputop-colorblind"),
    "trouble_mono": ((160, 50), dashboards.troubled, "gputop-mono"),
    "first_start": ((80, 24), dashboards.virtual, "gputop-dark"),
    "ascii_mono": ((80, 24), lambda: dashboards.one_gpu(ascii=True), "gputop-mono"),
}


@pytest.mark.parametrize("look", LOOKS)
def test_looks(look: str, snap_compare: Any) -> None:
    size, make, theme = LOOKS[look]
    assert snap_compare(DashboardApp(make(), theme), terminal_size=size)


async def test_an_answer_alone_does_not_draw_everything_again(monkeypatch: pytest.MonkeyPatch) -> None:
    app = whole_app()
    feed: Any = app.feed
    taken: list[object] = []
    async with app.run_test(size=(160, 50)) as pilot:
        await pilot.pause()
        before = app.view
        monkeypatch.setattr(app.screen, "take_answer", taken.append, raising=False)
        feed.take_answers = lambda: ["the answer"]
        app.on_feed_arrived()
        while not taken:
            await pilot.pause(0.02)
        assert app.view is before
        feed.waiting = [samples.snapshot(sequence=1)]
        app.on_feed_arrived()
        while len(taken) < 2:
            await pilot.pause(0.02)
        assert app.view is not before, "a snapshot that came with it is drawn"


async def test_the_past_of_an_older_runs_gpus_is_asked_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dashboard_module, "ASK_EVERY_S", 0.02)
    app = whole_app(samples.snapshot(runs=(samples.run(created_at=samples.EPOCH - 600.0),)))
    feed: Any = app.feed
    async with app.run_test(size=(160, 50)) as pilot:
        until = time.monotonic() + DEADLINE_S
        while not (asked := [item for item in feed.asked if isinstance(item, GpusQuestion)]):
            assert time.monotonic() < until
            await pilot.pause(0.02)
        assert asked[0] == GpusQuestion(("run-1",))
        dashboard = app.screen
        assert isinstance(dashboard, DashboardScreen)
        dashboard.take_answer(GpusAnswer(asked[0]))
        feed.asked.clear()
        await pilot.pause(0.2)
        assert not [item for item in feed.asked if isinstance(item, GpusQuestion)]
