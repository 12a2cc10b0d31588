"""A profile of a few steps of a run: the screen first says what it costs, Enter takes it.

The sampler asks the rank, on the machine where it runs: the screen posts ``Asked``, and the app hands it the answer in
``take_answer``.
"""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gputop.profiled import Profile, ProfileQuestion, ProfileState
from gputop.questions import Answer
from gputop.snapshot import Run
from gputop.tui.drawing.line import Line, Span, clean
from gputop.tui.drawing.profile import draw_profile
from gputop.tui.drawing.prose import wrapped
from gputop.tui.screens.base import KeyBar, KeyHint, SubScreen
from gputop.tui.state import copying
from gputop.tui.state.copying import Copy
from gputop.tui.state.view import View
from gputop.tui.widgets.requests import Asked
from gputop.tui.widgets.ruled import RuledPane

ASK_AGAIN_S = 10.0
"""A question about the cost may get lost; the profile itself is requested only once."""
_ENTER: dict[ProfileState, str] = {"offer": "take the profile", "done": "take another", "refused": "ask again"}


class ProfileScreen(SubScreen):
    """Shows a profile of ``run``."""

    NAME = "profile"
    HINTS = (KeyHint("Up/Down", "scroll"),)
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "take the profile", show=False, priority=True),
        Binding("P", "back", "back", show=False),
    ]

    def __init__(self, run: Run, view: View | None = None) -> None:
        super().__init__(view)
        self.run_shown = run
        self.answer: Profile | None = None
        self.taking = False
        """Whether a profile was requested and has not arrived yet."""

    def compose_body(self) -> ComposeResult:
        """Yield the text."""
        yield RuledPane("A profile of a few steps", id="profile")

    def head_text(self, view: View) -> Line:
        """Show the run's name."""
        return (Span(clean(self.run_shown.name), "value"),)

    def copyable(self) -> Copy | None:
        """Return the run's id."""
        return copying.of_run(self.run_shown)

    def on_mount(self) -> None:
        """Ask for its expected cost."""
        self.repeat(ASK_AGAIN_S, self._ask_cost)

    @property
    def _can_ask(self) -> bool:
        return self.is_current and self.view is not None and self.view.feed == "live"

    def _ask_cost(self) -> None:
        if self._can_ask and self.answer is None and not self.taking:
            self.post_message(Asked(ProfileQuestion(self.run_shown.run_id)))

    @property
    def _can_take(self) -> bool:
        return self._can_ask and self.answer is not None and not self.taking

    def action_take(self) -> None:
        """Take the profile, once its cost is on the screen; take another one after that."""
        if self._can_take and self.answer is not None:
            go = self.answer.state != "refused"
            self.taking, self.answer = go, self.answer if go else None
            self.post_message(Asked(ProfileQuestion(self.run_shown.run_id, go=go)))
            self.settle()

    def take_answer(self, answer: Answer) -> None:
        """Show the answer; a late one about the cost changes nothing."""
        if not isinstance(answer, Profile) or answer.run_id != self.run_shown.run_id:
            return
        if answer.state == "offer" and (self.taking or self.answer is not None):
            return
        self.answer, self.taking = answer, False
        self.settle()

    def draw(self, view: View) -> None:
        """Draw the last answer."""
        pane = self.query_one("#profile", RuledPane)
        columns = max(20, pane.inner_size.width)
        pane.set_content(self._lines(view, columns))
        self.query_one(KeyBar).set_hints(self.named((*self._what_enter_does(), *self.HINTS)))

    def _what_enter_does(self) -> tuple[KeyHint, ...]:
        """Return the hint for Enter; empty while it does nothing."""
        if not self._can_take or self.answer is None:
            return ()
        return (KeyHint("Enter", _ENTER[self.answer.state], "screen.take", 1),)

    def _lines(self, view: View, columns: int) -> tuple[Line, ...]:
        if view.feed != "live":
            return tuple(wrapped("This is a recording: its ranks cannot be asked.", columns, "warn"))
        if self.taking:
            return tuple(wrapped("recording …", columns, "dim"))
        if self.answer is None:
            return tuple(wrapped("asking what a profile would cost …", columns, "dim"))
        shown = list(draw_profile(self.answer, columns, view.settings.ascii))
        if self.answer.state == "offer":
            shown += [
                (Span(""),),
                *wrapped("Press Enter to start. A profile does not change the training's weights.", columns, "dim"),
            ]
        return tuple(shown)
