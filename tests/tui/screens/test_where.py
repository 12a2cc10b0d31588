"""The screen that shows where every rank is: it asks repeatedly, and shows the answers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.pilot import Pilot

from gputop.process import ProcessCurve
from gputop.questions import Question
from gputop.settings.values import Settings
from gputop.snapshot import ProcessRank, ProcessRun, Snapshot
from gputop.tui.app import GputopApp
from gputop.tui.screens.dashboard import DashboardScreen
from gputop.tui.screens.where import WhereScreen
from gputop.tui.widgets.requests import Asked
from gputop.whereabouts.records import Whereabouts, WhereQuestion
from tests import samples
from tests.tui.drawing.test_whereabouts import NOW, elsewhere, waiting
from tests.tui.kit import ScreenApp, text_of, view_of
from tests.tui.screens.test_memory import SampleFeed

RUN = view_of().snapshot.runs[0]


def answer(run_id: str = RUN.run_id) -> Whereabouts:
    from gputop.whereabouts.verdict import judged

    late = elsewhere(3, doing="reads /data/shard-7.tar", stack=("data.py:17 __getitem__", "fetch.py:54 fetch"))
    return judged(run_id, RUN.name, NOW, [waiting(rank) if rank != 3 else late for rank in range(8)])


class AskedApp(ScreenApp):
    """Collects the questions."""

    asked: tuple[Question, ...] = ()

    def on_asked(self, message: Asked) -> None:
        self.asked = (*self.asked, message.question)


async def until_shown(app: ScreenApp | GputopApp, pilot: Pilot[None], words: str) -> None:
    for _ in range(1500):
        if words in text_of(app):
            return
        await pilot.pause(0.02)
    raise AssertionError(text_of(app))


async def test_it_asks_and_shows_who_is_behind() -> None:
    view = view_of()
    screen = WhereScreen(RUN, view)
    app = AskedApp(screen, view)
    async with app.run_test(size=(100, 30)) as pilot:
        await until_shown(app, pilot, "asking the ranks")
        assert app.asked == (WhereQuestion(RUN.run_id),)
        screen.take_answer(answer("another run"))
        await pilot.pause()
        assert "asking the ranks" in text_of(app)
        screen.take_answer(answer())
        await until_shown(app, pilot, "Rank 3")
        shown = " ".join(text_of(app).split())
        assert "Ranks 0-2, 4-7 wait in all_reduce #412 for rank 3" in shown
        assert "data.py:17 in __getitem__, in data, reads /data/shard-7.tar, for 35s" in shown


@pytest.mark.parametrize("change", [{"feed": "replay"}, {"paused": True}], ids=["replay", "paused"])
async def test_no_rank_is_asked_from_a_recording_or_a_lost_link(change: dict[str, object]) -> None:
    view = view_of(settings=Settings(ascii=True), **change)
    app = AskedApp(WhereScreen(RUN, view), view)
    async with app.run_test(size=(80, 24)) as pilot:
        await until_shown(app, pilot, "recording" if "feed" in change else "asking")
        await pilot.pause()
        assert app.asked == ()


class AskedFeed(SampleFeed):
    """Answers at once."""

    def __init__(self, snapshot: Snapshot | None = None) -> None:
        super().__init__()
        self.answers: list[Whereabouts] = []
        self.asked: list[WhereQuestion] = []
        self.shown = snapshot

    def drain(self) -> list[Snapshot]:
        return [self.shown or snapshot for snapshot in super().drain()]

    def ask(self, question: Question) -> None:
        if isinstance(question, WhereQuestion):
            self.asked.append(question)
            self.answers.append(answer(question.run_id))
            self.push()

    def take_answers(self) -> list[Whereabouts]:  # type: ignore[override]
        found, self.answers = self.answers, []
        return found


async def test_the_key_opens_it_for_a_run_before_its_first_step() -> None:
    """Until then there is no run to choose: the key said that one has to be chosen."""
    ranks = tuple(ProcessRank(4100 + rank, rank, rank) for rank in range(2))
    starting = ProcessRun("launcher:4099", "llama.py", ranks, world_size=2, starting=True)
    feed = AskedFeed(replace(samples.snapshot(), runs=(), points=(), process_runs=(starting,)))
    app = GputopApp(feed, replace(Settings(), color=True))  # type: ignore[arg-type]
    async with app.run_test(size=(160, 50)) as pilot:
        feed.push()
        for _ in range(200):
            if isinstance(app.screen, DashboardScreen) and app.screen.chosen_process_run is not None:
                break
            await pilot.pause(0.02)
        await pilot.press("w")
        await until_shown(app, pilot, "Ranks 0-2, 4-7 wait in all_reduce #412")
        assert "llama.py" in text_of(app)
    assert feed.asked[0] == WhereQuestion("launcher:4099", (4100, 4101))


async def test_the_key_opens_it_for_the_chosen_run() -> None:
    feed = AskedFeed()
    app = GputopApp(feed, replace(Settings(), color=True))  # type: ignore[arg-type]
    async with app.run_test(size=(160, 50)) as pilot:
        feed.push()
        for _ in range(1500):
            if isinstance(app.screen, DashboardScreen) and app.screen.chosen_run is not None:
                break
            await pilot.pause(0.02)
        await pilot.press("w")
        await until_shown(app, pilot, "Ranks 0-2, 4-7 wait in all_reduce #412")


async def test_the_key_asks_all_ranks_of_an_untracked_run_whose_curve_is_shown() -> None:
    """The curve has only the rank that writes it."""
    curve = replace(RUN, run_id="pid-4100-1-aa", ranks=RUN.ranks[:1])
    ranks = tuple(ProcessRank(4100 + rank, rank, rank) for rank in range(2))
    curves = (ProcessCurve(curve.run_id, "its output"),)
    whole = ProcessRun("launcher:4099", "llama.py", ranks, world_size=2, run_id=curve.run_id, curves=curves)
    feed = AskedFeed(replace(samples.snapshot(), runs=(curve,), points=(), process_runs=(whole,)))
    app = GputopApp(feed, replace(Settings(), color=True))  # type: ignore[arg-type]
    async with app.run_test(size=(160, 50)) as pilot:
        feed.push()
        for _ in range(1500):
            if isinstance(app.screen, DashboardScreen) and app.screen.chosen_run == curve:
                break
            await pilot.pause(0.02)
        await pilot.press("w")
        await until_shown(app, pilot, "Ranks 0-2, 4-7 wait in all_reduce #412")
    assert feed.asked[0] == WhereQuestion("launcher:4099", (4100, 4101))
