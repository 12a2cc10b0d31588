"""Watches a machine (``machine.py``): processes what arrives in its stream, and hands the newest view to the visible screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any
from weakref import ref

from textual.screen import Screen

from gputop.agent.feed import Feed
from gputop.agent.one_heap import GIVEN_BACK_S, give_back
from gputop.questions import Misunderstood
from gputop.settings.values import Settings
from gputop.tui.machine import Machine
from gputop.tui.messages import FeedArrived
from gputop.tui.state.own_cost import Cost, OwnCost
from gputop.tui.state.view import View
from gputop.tui.terminal.sparing_app import SparingApp
from gputop.tui.turns import Turns

FIRST_PICTURE_S = 1.0
"""How often the first picture is drawn again while no snapshot arrives, with its age."""
NOT_ANSWERED_S = 15.0
"""For how long a screen says that its questions are not understood."""


class WatchingApp(SparingApp):
    """Keeps the visible screen current; ``GputopApp`` answers keys."""

    REST_S = 0.0
    """The shortest pause between two turns at what has arrived."""

    def __init__(self, feed: Feed, settings: Settings) -> None:
        super().__init__()
        self.machine = Machine(feed)
        """The machine that the dashboard, and all screens over it, show."""
        self.settings = settings
        self.view: View | None = None
        self.farewell = ""
        """What is printed after the screen has closed."""
        self._paused = False
        self._own_cost = OwnCost()
        self._not_answered: Callable[[], Screen[Any] | None] = lambda: None
        """Returns the screen that has said that its questions are not understood."""
        self._turns = Turns(self._take_turn, self.call_later, self.REST_S)

    @property
    def feed(self) -> Feed:
        """The stream of the machine that is shown."""
        return self.machine.feed

    @property
    def remote(self) -> str | None:
        """The other machine that is shown, as the user named it; None: this one, or a recording."""
        return self.feed.host

    def start_watching(self) -> None:
        """Follow the streams from now on. Called once, after the first screen is shown."""
        self.follow(self.feeds())
        self.set_interval(1.0, self._check_age)
        self.set_interval(GIVEN_BACK_S, give_back)
        self._first_picture = self.set_interval(FIRST_PICTURE_S, self._keep_picture)

    def follow(self, feeds: Sequence[Feed]) -> None:
        """Take in what arrives in these streams."""
        for feed in feeds:
            feed.start(lambda: self.post_message(FeedArrived()))

    def feeds(self) -> Sequence[Feed]:
        """Return the streams that are followed."""
        return (self.feed,)

    def on_feed_arrived(self) -> None:
        """Process what has arrived."""
        self._turns.want()

    def _take_turn(self) -> bool:
        """Process what is waiting, as much of it as a turn may take, and draw the newest; return whether there is more."""
        answers = self.feed.take_answers()
        is_more = self.take_in(is_answered=bool(answers))
        for answer in answers:
            if isinstance(answer, Misunderstood):
                self._say_why_not(answer)
                continue
            take = getattr(self.screen, "take_answer", None)
            if take is not None:
                take(answer)
        return is_more

    def _say_why_not(self, answer: Misunderstood) -> None:
        """Say, once on each screen, that its questions cannot be answered: it asks again every few seconds."""
        if answer.why and self._not_answered() is not self.screen:
            self._not_answered = ref(self.screen)
            self.screen.notify(answer.why, severity="warning", timeout=NOT_ANSWERED_S)

    def take_in(self, *, is_answered: bool = False) -> bool:
        """Process what is waiting, and draw it; return whether more may be waiting for the next turn.

        ``is_answered``: the sampler has answered a question. The screen draws the answer itself, so that without a new
        snapshot nothing is left to draw.
        """
        first = self.machine.latest is None
        arrived = self.machine.take_in()
        if arrived and first:
            self.call_after_refresh(self._load_doctor)
        if not self._paused and (arrived or not is_answered):
            self.refresh_view()
        return False

    def _load_doctor(self) -> None:
        """Load the doctor and judge the snapshots that have already arrived."""
        if self.machine.doctor.load() and not self._paused:
            self.refresh_view()

    def _keep_picture(self) -> None:
        """Keep the first picture and its age on the screen until the first snapshot arrives."""
        if not self.draw_held():
            self._first_picture.stop()

    def _check_age(self) -> None:
        """Keep the age on the badge of a stale stream counting; nothing else of the view changes while nothing arrives."""
        stale_s = self.machine.stale_s()
        if self.view is None or self._paused or (stale_s is None and self.view.stale_s is None):
            return
        show_age: Callable[[View], None] | None = getattr(self.screen, "show_age", None)
        if show_age is None or stale_s is None or self.view.stale_s is None or self.view.feed_problem != self.feed.problem():
            self.refresh_view()
            return
        self.view = replace(self.view, stale_s=stale_s)
        show_age(self.view)

    def refresh_view(self) -> None:
        """Build a new view and hand it to the visible screen."""
        view = self.machine.view(self.settings, paused=self._paused, own_cost=self._look_at_cost())
        self.view = view
        if view is None:
            self.without_view()
            return
        self.show_view()
        self.release()

    def _look_at_cost(self) -> Cost | None:
        """Return what gputop costs on this machine: of a sampler elsewhere, only the screen."""
        latest, is_here = self.machine.latest, self.feed.kind == "live" and self.feed.host is None
        return self._own_cost.update(latest.cost.cpu_percent if latest is not None and is_here else None, self.sent_bytes)

    def without_view(self) -> None:
        """Leave if there will be no snapshot."""
        problem = self.feed.problem()
        if problem:
            self.farewell = f"gputop: {problem}"
            self.exit(return_code=1)

    def show_view(self) -> None:
        """Hand the current view to the visible screen."""
        show = getattr(self.screen, "show", None)
        if self.view is not None and show is not None and self.screen.is_mounted:
            show(self.view)

    def choose_run(self, run_id: str | None) -> None:
        """Show this run from now on; None follows the newest run again."""
        self.machine.chosen_run = run_id
        self.refresh_view()
