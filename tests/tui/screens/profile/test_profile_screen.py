"""The screen of a profile: it shows the cost first, Enter takes it, and late answers or those of another run change nothing."""

from __future__ import annotations

from dataclasses import replace

from textual.pilot import Pilot

from gputop.profiled import Hot, Profile, ProfileQuestion, refused
from gputop.settings.values import Settings
from gputop.tui.screens.profile.screen import ProfileScreen
from gputop.tui.widgets.requests import Asked
from tests.tui.kit import ScreenApp, text_of, view_of

RUN = view_of().snapshot.runs[0]
OFFER = Profile(RUN.run_id, RUN.name, 0, "offer", steps=3, step_s=0.1, expected_s=0.6)
DONE = replace(
    OFFER,
    state="done",
    extra_s=0.5,
    longest_s=0.2,
    recorded_s=0.3,
    shares={"python": 0.1, "operators": 0.2},
    operators=(Hot("aten::addmm", 0.1, 30, "train.py:88 step"),),
    trace="/home/me/profile-rank-0.json.gz",
)


class AskedApp(ScreenApp):
    """Collects the questions."""

    asked: tuple[ProfileQuestion, ...] = ()

    def on_asked(self, message: Asked) -> None:
        self.asked = (*self.asked, message.question)


async def until_shown(app: ScreenApp, pilot: Pilot[None], words: str) -> None:
    for _ in range(1500):
        if words in " ".join(text_of(app).split()):
            return
        await pilot.pause(0.02)
    raise AssertionError(text_of(app))


def last_row(app: ScreenApp) -> str:
    """The keys."""
    return text_of(app).splitlines()[-1]


async def test_it_says_the_cost_and_enter_takes_it() -> None:
    view = view_of()
    screen = ProfileScreen(RUN, view)
    app = AskedApp(screen, view)
    async with app.run_test(size=(100, 30)) as pilot:
        await until_shown(app, pilot, "asking what a profile would cost")
        assert "Enter" not in last_row(app)
        await pilot.press("enter")
        assert app.asked == (ProfileQuestion(RUN.run_id),), "nothing is taken before its cost is known"
        screen.take_answer(replace(OFFER, run_id="another"))
        screen.take_answer(OFFER)
        await until_shown(app, pilot, "6 times a step's time")
        assert "Enter take the profile" in last_row(app)
        await pilot.press("enter")
        await until_shown(app, pilot, "recording")
        assert "Enter" not in last_row(app)
        assert app.asked[1:] == (ProfileQuestion(RUN.run_id, go=True),)
        await pilot.press("enter")
        screen.take_answer(OFFER)
        await until_shown(app, pilot, "recording")
        assert len(app.asked) == 2
        screen.take_answer(DONE)
        await until_shown(app, pilot, "It has cost the training 500.0 ms, 5.0 times a step's time")
        await until_shown(app, pilot, "66.7 ms operators")
        await until_shown(app, pilot, "aten::addmm train.py:88 step")
        await until_shown(app, pilot, "/home/me/profile-rank-0.json.gz")
        assert "Enter take another" in last_row(app)


async def test_an_obstacle_is_shown_and_asked_about_again() -> None:
    view = view_of()
    screen = ProfileScreen(RUN, view)
    app = AskedApp(screen, view)
    async with app.run_test(size=(80, 24)) as pilot:
        screen.take_answer(refused(RUN.run_id, RUN.name, "A step takes 1.0 ms.", "Ask another run."))
        await until_shown(app, pilot, "No profile. A step takes 1.0 ms.")
        assert "Ask another run." in text_of(app)
        assert "Enter ask again" in last_row(app)
        await pilot.press("enter")
        assert app.asked[-1] == ProfileQuestion(RUN.run_id)


async def test_a_recording_is_not_asked() -> None:
    view = view_of(settings=Settings(ascii=True), feed="replay")
    app = AskedApp(ProfileScreen(RUN, view), view)
    async with app.run_test(size=(80, 24)) as pilot:
        await until_shown(app, pilot, "cannot be asked")
        await pilot.press("enter")
        assert app.asked == ()
