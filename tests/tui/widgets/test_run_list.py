"""The list of runs on the run's screen: live and stored runs, the filter, and the questions to the sampler."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual import events
from textual.pilot import Pilot

from gputop.history.metrics import ENDED_RUNS_KEPT
from gputop.run_questions import GpuPast, GpusAnswer, GpusQuestion, RunsAnswer, RunsQuestion
from gputop.settings.values import Settings
from gputop.snapshot import Points, Run
from gputop.tui.screens.run.screen import RunScreen
from gputop.tui.screens.stored import StoredRuns
from gputop.tui.widgets.chart import ChartPane
from gputop.tui.widgets.requests import Asked
from gputop.tui.widgets.run_list import RunList
from tests import samples
from tests.tui.kit import ScreenApp, text_of, view_of


class AskingApp(ScreenApp):
    """Also keeps the screen's questions."""

    def __init__(self, screen: RunScreen) -> None:
        super().__init__(screen, view_of())
        self.asked: list[RunsQuestion | GpusQuestion] = []

    def on_asked(self, message: Asked) -> None:
        self.asked.append(message.question)


def stored(number: int, **changes: object) -> Run:
    """A run of last week, of which a list knows no facts."""
    run = samples.run(world_size=1, step=90 + number, state="finished", run_id=f"old-{number}")
    rank = replace(run.ranks[0], facts={}, metrics={"loss": 0.5 + number, "extra": 1.0})
    held: dict[str, object] = {
        "name": f"lenet {number}",
        "created_at": samples.EPOCH - 600_000 - number,
        "ended_at": samples.EPOCH - 599_000,
        "ranks": (rank,),
        "tags": ("sweep",) if number % 2 else (),
        "config": {"lr": 0.1 * number},
    }
    return replace(run, **(held | changes))  # type: ignore[arg-type]


LISTED = RunsAnswer(RunsQuestion(), tuple(stored(number) for number in range(5)))


async def settle(pilot: Pilot[None]) -> None:
    for _ in range(4):
        await pilot.pause()


def rows(app: ScreenApp) -> list[str]:
    """The first cells of each line of the list."""
    return [line[:38].strip() for line in text_of(app).splitlines()]


async def type_text(pilot: Pilot[None], text: str) -> None:
    names = {" ": "space", ":": "colon", "<": "less_than_sign", ">": "greater_than_sign", "!": "exclamation_mark"}
    await pilot.press(*(names.get(char, char) for char in text))


async def test_live_and_stored_runs_are_one_list_and_a_stored_one_is_read_when_chosen() -> None:
    screen = RunScreen("run-1")
    app = AskingApp(screen)
    async with app.run_test(size=(160, 50)) as pilot:
        await settle(pilot)
        assert app.asked == [RunsQuestion(), GpusQuestion(("run-1",))]
        assert "reading …" in text_of(app)
        screen.take_answer(LISTED)
        await settle(pilot)
        names = [row for row in rows(app)[1:] if "resnet18-ddp" in row or "lenet" in row]
        assert [name.split()[1] for name in names] == ["resnet18-ddp", *["lenet"] * 5]
        assert "reading" not in text_of(app)
        await pilot.press("down")
        await settle(pilot)
        assert screen.run_id == "old-0"
        assert app.asked[-2:] == [RunsQuestion(("old-0",)), GpusQuestion(("old-0",))]
        screen.take_answer(GpusAnswer(GpusQuestion(("old-0",))))
        asked = len(app.asked)
        points = Points("old-0", 0, "loss", tuple(range(50)), tuple(1e9 + step for step in range(50)), (0.5,) * 50)
        other = Points("old-0", 0, "extra", (0, 1), (1e9, 1e9 + 1), (1.0, 2.0))
        whole = replace(stored(0), ranks=(replace(stored(0).ranks[0], facts={"progress": {"total_steps": 777}}),))
        screen.take_answer(RunsAnswer(RunsQuestion(("old-0",)), (whole,), (points, other)))
        await settle(pilot)
        shown = text_of(app)
        assert "metric 1 of 2" in shown
        assert "90/777" in shown
        screen.take_answer(GpusAnswer(GpusQuestion(("run-1",))))
        await pilot.press("N", "n")
        await settle(pilot)
        assert screen.run_id == "old-0"
        assert app.asked[asked:] == [], "what was read once is not asked again"


WAY_TOO_LONG_S = 3600.0
LOSS = Points("old-0", 0, "loss", tuple(range(50)), tuple(map(float, range(50))), (0.5,) * 50)
OF_OLD_0 = (
    GpusAnswer(GpusQuestion(("old-0",))),
    RunsAnswer(RunsQuestion(("old-0",)), (stored(0),), (LOSS,)),
)


@pytest.mark.parametrize("answers", [OF_OLD_0, OF_OLD_0[::-1]])
async def test_a_chosen_run_appears_once_all_of_it_is_read(
    answers: tuple[GpusAnswer | RunsAnswer, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gputop.tui.screens.run.screen.HELD_S", WAY_TOO_LONG_S)
    screen = RunScreen("run-1")
    app = AskingApp(screen)
    async with app.run_test(size=(160, 50)) as pilot:
        await settle(pilot)
        screen.take_answer(LISTED)
        await settle(pilot)
        before, cursor = text_of(app).splitlines(), screen.query_one(RunList).cursor
        await pilot.press("down")
        for answer in answers:
            await settle(pilot)
            shown = text_of(app).splitlines()
            assert [line[42:] for line in shown[1:]] == [line[42:] for line in before[1:]], "the run before stays"
            assert screen.query_one(RunList).cursor == cursor + 1, "and the cursor has moved"
            screen.take_answer(answer)
        await settle(pilot)
        assert "lenet 0" in text_of(app).splitlines()[0]
        assert screen.query_one("#metric", ChartPane).chart is not None


async def test_a_run_that_is_slow_to_read_appears_before_its_points() -> None:
    screen = RunScreen("run-1")
    app = AskingApp(screen)
    async with app.run_test(size=(160, 50)) as pilot:
        await settle(pilot)
        screen.take_answer(LISTED)
        await pilot.press("down")
        while "lenet 0" not in text_of(app).splitlines()[0]:
            await pilot.pause(0.02)
        assert screen.query_one("#metric", ChartPane).chart is None


OLD_POINTS = tuple(replace(LOSS, run_id=f"old-{number}") for number in range(5))


def answer_everything(screen: RunScreen, app: AskingApp) -> list[RunsQuestion | GpusQuestion]:
    """Answer what was asked, and return it."""
    asked, app.asked = app.asked, []
    for question in asked:
        if isinstance(question, GpusQuestion):
            screen.take_answer(GpusAnswer(question))
        elif question.run_ids:
            numbers = [int(run_id.removeprefix("old-")) for run_id in question.run_ids]
            runs, points = tuple(map(stored, numbers)), tuple(OLD_POINTS[number] for number in numbers)
            screen.take_answer(RunsAnswer(question, runs, points))
        else:
            screen.take_answer(LISTED)
    return asked


async def test_runs_that_the_next_key_may_choose_are_read_before_it_is_pressed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.tui.screens.run.screen.HELD_S", WAY_TOO_LONG_S)
    screen = RunScreen("run-1")
    app = AskingApp(screen)
    async with app.run_test(size=(160, 50)) as pilot:
        await settle(pilot)
        app.give(app.view)
        await settle(pilot)
        assert app.asked == [RunsQuestion(), GpusQuestion(("run-1",))], "before the list is there, nothing is asked ahead"
        answer_everything(screen, app)
        await settle(pilot)
        app.give(app.view)
        app.give(app.view)
        await settle(pilot)
        assert answer_everything(screen, app) == [RunsQuestion(("old-0",)), GpusQuestion(("old-0",))], "and once"
        assert screen.run_id == "run-1"
        await pilot.press("down")
        await settle(pilot)
        assert "lenet 0" in text_of(app).splitlines()[0]
        assert screen.query_one("#metric", ChartPane).chart is not None, "it is there at once"
        assert app.asked == []
        app.give(app.view)
        await settle(pilot)
        assert answer_everything(screen, app) == [RunsQuestion(("old-1",)), GpusQuestion(("old-1",))]
        await pilot.press("slash")
        await type_text(pilot, "lenet extra:4")
        await pilot.press("backspace", "backspace")
        await type_text(pilot, "<9 loss>4")
        app.give(app.view)
        await settle(pilot)
        assert screen.run_id == "old-0"
        assert answer_everything(screen, app) == [RunsQuestion(("old-4",)), GpusQuestion(("old-4",))], "the first one kept"
        await pilot.press("enter")
        await settle(pilot)
        assert "lenet 4" in text_of(app).splitlines()[0]
        assert screen.query_one("#metric", ChartPane).chart is not None
        assert app.asked == []


async def test_nothing_is_asked_ahead_while_the_chosen_run_is_being_read() -> None:
    """The sampler answers only the newest question."""
    screen = RunScreen("run-1")
    app = AskingApp(screen)
    async with app.run_test(size=(160, 50)) as pilot:
        await settle(pilot)
        answer_everything(screen, app)
        await pilot.press("down", "down")
        await settle(pilot)
        assert app.asked[-2:] == [RunsQuestion(("old-1",)), GpusQuestion(("old-1",))]
        asked = list(app.asked)
        app.give(app.view)
        await settle(pilot)
        assert app.asked == asked
        answer_everything(screen, app)
        app.give(app.view)
        await settle(pilot)
        assert app.asked[-2:] == [RunsQuestion(("old-2",)), GpusQuestion(("old-2",))]
        answer_everything(screen, app)
        app.give(app.view)
        await settle(pilot)
        assert app.asked == [], "the run above was read when the cursor passed it"


async def test_a_run_that_was_read_ahead_is_not_drawn_before_it_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = RunScreen("run-1")
    app = AskingApp(screen)
    async with app.run_test(size=(160, 50)) as pilot:
        await settle(pilot)
        answer_everything(screen, app)
        app.give(app.view)
        await settle(pilot)
        drawn: list[object] = []
        monkeypatch.setattr(screen, "draw", drawn.append)
        assert len(answer_everything(screen, app)) == 2
        await settle(pilot)
        assert not drawn


def test_what_could_not_be_read_is_asked_again() -> None:
    runs, view = StoredRuns(), view_of()
    runs.take(LISTED, view.history)
    runs.take(RunsAnswer(RunsQuestion(("old-0",)), problem="gputop could not read the runs: OSError."), view.history)
    assert runs.question(["old-0"], view) == RunsQuestion(("old-0",))


async def test_a_problem_with_a_run_that_was_read_ahead_is_not_told() -> None:
    screen = RunScreen("run-1")
    app = AskingApp(screen)
    async with app.run_test(size=(160, 50)) as pilot:
        await settle(pilot)
        answer_everything(screen, app)
        for run_id, told in (("old-0", 0), ("run-1", 1)):
            screen.take_answer(RunsAnswer(RunsQuestion((run_id,)), problem="gputop could not read the runs: OSError."))
            await settle(pilot)
            assert len(app._notifications) == told


def test_the_runs_on_the_screen_are_forgotten_last() -> None:
    view = view_of()
    history, snapshot = view.history, replace(view.snapshot, points=())
    one = GpuPast("old-0", "GPU-1", 0, (1.0, 2.0), (50.0, 60.0), (1, 2), (100.0, 200.0))
    for number in range(ENDED_RUNS_KEPT + 3):
        history.recall([replace(LOSS, run_id=f"old-{number}")])
        history.recall_gpus(f"old-{number}", [replace(one, run_id=f"old-{number}")])
        history.keep(["old-0", "unknown"])
        history.observe(replace(snapshot, sequence=snapshot.sequence + number + 1))
    known = [number for number in range(ENDED_RUNS_KEPT + 3) if history.metrics(f"old-{number}")]
    assert known == [number for number in range(ENDED_RUNS_KEPT + 3) if history.gpus_of(f"old-{number}")]
    assert known == [0, *range(4, ENDED_RUNS_KEPT + 3)]


def with_series(number: int) -> Run:
    run = stored(0)
    return replace(run, ranks=(replace(run.ranks[0], metrics={f"metric {place}": 0.5 for place in range(number)}),))


@pytest.mark.parametrize(
    ("run", "changes", "asked"),
    [
        (with_series(16), {}, True),
        (with_series(17), {}, False),
        (replace(with_series(8), ranks=(with_series(8).ranks[0], replace(with_series(0).ranks[0], rank=1))), {}, True),
        (replace(with_series(9), ranks=(with_series(9).ranks[0], replace(with_series(0).ranks[0], rank=1))), {}, False),
        (with_series(1), {"remote": "node8"}, False),
        (with_series(1), {"feed": "replay"}, False),
    ],
    ids=["few series", "many", "on two ranks", "many on two ranks", "of another machine", "of a recording"],
)
def test_only_small_runs_of_this_machine_are_read_ahead(run: Run, changes: dict[str, object], asked: bool) -> None:
    runs, view = StoredRuns(), view_of(**changes)
    assert runs.questions_ahead(["old-0"], view) == ()
    runs.take(RunsAnswer(RunsQuestion(), (run,)), view.history)
    expected = (RunsQuestion(("old-0",)), GpusQuestion(("old-0",)))
    assert runs.questions_ahead(["old-0", "run-1", "unknown"], view) == (expected if asked else ())


def test_gpus_that_the_history_has_forgotten_are_asked_for_again() -> None:
    view = view_of()
    runs = StoredRuns()
    one = GpuPast("old-0", "GPU-1", 0, (1.0, 2.0), (50.0, 60.0), (1, 2), (100.0, 200.0))
    runs.take_gpus(GpusAnswer(GpusQuestion(("old-0", "none")), (one,)), view.history)
    assert runs.gpus_question("old-0", view) is None
    assert runs.gpus_question("none", view) is None
    for number in range(1, ENDED_RUNS_KEPT + 1):
        runs.take_gpus(GpusAnswer(GpusQuestion((f"old-{number}",)), (replace(one, run_id=f"old-{number}"),)), view.history)
    assert runs.gpus_question("old-0", view) == GpusQuestion(("old-0",))
    assert runs.gpus_question("old-1", view) is None
    assert runs.gpus_question("none", view) is None, "there was nothing to forget"


async def test_the_filter_narrows_the_list_as_it_is_typed_and_says_what_is_wrong() -> None:
    screen = RunScreen("run-1")
    app = AskingApp(screen)
    async with app.run_test(size=(160, 50)) as pilot:
        await settle(pilot)
        screen.take_answer(LISTED)
        await pilot.press("slash")
        await type_text(pilot, "lenet tag:sweep")
        await settle(pilot)
        assert sum("lenet" in row for row in rows(app)) == 3, "the filter itself and two runs"
        assert "2 of 6" in text_of(app)
        await type_text(pilot, " l<")
        await settle(pilot)
        assert "l< needs a value" in text_of(app)
        assert "2 of 6" in text_of(app), "the last filter that was right stays"
        await type_text(pilot, "2q")
        await settle(pilot)
        assert app.is_running, "q is typed, and does not quit"
        assert "'2q', which is no" in text_of(app)
        await pilot.press(*["backspace"] * 4)
        await type_text(pilot, "loss<2")
        assert screen.run_id == "run-1", "while it is typed, the run stays"
        await pilot.press("enter")
        await settle(pilot)
        assert "1 of 6" in text_of(app)
        assert screen.run_id == "old-1", "the run shown was left out: the first one of the list takes its place"
        await pilot.press("escape")
        await settle(pilot)
        assert app.screen is screen
        assert "6 runs  / filter" in text_of(app)
        await pilot.press("escape")
        await settle(pilot)
        assert app.screen is not screen


@pytest.mark.parametrize("size", [(118, 40), (80, 24)])
async def test_where_there_is_no_room_for_both_a_key_shows_the_list_or_the_charts(size: tuple[int, int]) -> None:
    screen = RunScreen("run-1", listed=True)
    app = AskingApp(screen)
    async with app.run_test(size=size) as pilot:
        await settle(pilot)
        screen.take_answer(LISTED)
        await settle(pilot)
        assert "STATE" in text_of(app)
        assert "linear" not in text_of(app)
        await pilot.press("down", "down", "up", "enter")
        await settle(pilot)
        assert screen.run_id == "old-0"
        assert "STARTED" not in text_of(app)
        assert "metric" in text_of(app)
        await pilot.press("o")
        await settle(pilot)
        assert "STARTED" in text_of(app)
        await pilot.press("slash")
        await type_text(pilot, "state:finished !old-3")
        await pilot.press("enter")
        await settle(pilot)
        assert "4 of 6" in text_of(app)
        assert app.screen.query_one(RunList).has_focus


async def test_marked_runs_stay_in_the_chart_and_their_configurations_are_compared() -> None:
    screen = RunScreen("run-1")
    app = AskingApp(screen)
    async with app.run_test(size=(160, 50)) as pilot:
        await settle(pilot)
        screen.take_answer(LISTED)
        await pilot.press("space")
        await settle(pilot)
        assert " runs, 1 marked " in text_of(app), "the key says that it did something"
        await pilot.press("down", "space", "down", "x")
        await settle(pilot)
        assert RunsQuestion(("old-1", "old-0")) in app.asked
        points = tuple(
            Points(f"old-{number}", 0, "loss", tuple(range(50)), tuple(1e9 + step for step in range(50)), (0.5 + number,) * 50)
            for number in range(2)
        )
        screen.take_answer(GpusAnswer(GpusQuestion(("old-1",))))
        screen.take_answer(RunsAnswer(RunsQuestion(("old-0", "old-1")), (stored(0), stored(1)), points))
        await settle(pilot)
        shown = text_of(app)
        for words in ("lenet 1", "━ resnet18-ddp", "━ lenet 0", "━ lenet 1", "differences first", "over steps"):
            assert words in shown, words
        differing = next(line[:42].split() for line in shown.splitlines() if line.startswith(" lr "))
        assert differing == ["lr", "0.1", "0.1", "0.0"]
        styles = [curve.style for curve in screen.query_one("#metric", ChartPane).chart.curves]
        assert len(set(styles)) == 3
        await pilot.press("u")
        await settle(pilot)
        assert "━ lenet 0" not in text_of(app)
        assert "differences" not in text_of(app)
        await pilot.press(*["space", "down"] * 6)
        await settle(pilot)
        assert len(screen.marked) <= 7


async def test_a_replay_asks_nothing_and_lists_what_the_recording_holds() -> None:
    app = AskingApp(RunScreen(""))
    app.view = view_of(feed="replay", settings=Settings(ascii=True))
    async with app.run_test(size=(160, 50)) as pilot:
        await settle(pilot)
        shown = text_of(app)
        assert app.asked == []
        assert "resnet18-ddp" in shown
        assert "reading" not in shown
        assert shown.isascii()


async def test_a_filter_typed_in_one_burst_triggers_no_action() -> None:
    screen = RunScreen("run-1")
    app = AskingApp(screen)
    async with app.run_test(size=(160, 50)) as pilot:
        await settle(pilot)
        for key, character in (("slash", "/"), *((char, char) for char in "gmnx")):
            app.post_message(events.Key(key, character))
        await settle(pilot)
        await settle(pilot)
        assert screen.query_one(RunList).filter_text() == "gmnx"
        assert not screen.has_class("grid")
