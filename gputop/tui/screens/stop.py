"""The confirmation before anything is stopped. "No" is preselected; nothing is signaled without a "Yes"."""

from __future__ import annotations

from typing import Any, ClassVar

from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from gputop.errors import GputopError
from gputop.tui.drawing.line import Line, Span
from gputop.tui.drawing.prose import BLANK, wrapped
from gputop.tui.screens.stopping import StopTarget, stop, target_of_job, target_of_process, target_of_run
from gputop.tui.state.view import View
from gputop.tui.widgets.form import Field, Form
from gputop.tui.widgets.private_textual import forget_removed_widgets

__all__ = ["StopScreen", "open_stop", "target_of_job", "target_of_process", "target_of_run"]

_COLUMNS = 66


class StopScreen(ModalScreen[bool]):
    """Asks whether to stop ``target``; dismisses with True if the user confirmed and the stop was requested."""

    DEFAULT_CSS = f"""
    StopScreen {{ align: center middle; }}
    StopScreen #question {{ width: {_COLUMNS + 4}; max-width: 100%; }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,n,k,f9", "no", show=False),
        Binding("y", "yes", show=False),
        # The keys of the screens below do nothing while the question is open.
        Binding("l,d,e,p,question_mark,f1,f2", "nothing", show=False),
    ]

    def __init__(self, target: StopTarget, ascii_only: bool = False) -> None:
        super().__init__()
        self.target = target
        self.ascii_only = ascii_only
        self.failed = False

    def compose(self) -> ComposeResult:
        """Yield the form with the question."""
        yield Form("Stop?", id="question")

    def on_unmount(self) -> None:
        """Leave no memory behind."""
        forget_removed_widgets()

    def on_mount(self) -> None:
        """Ask, or explain why the target cannot be stopped."""
        self.styles.background = "transparent"  # here, because the app's own stylesheet overrides a DEFAULT_CSS
        form = self.query_one("#question", Form)
        form.ascii = self.ascii_only
        if self.target.refusal:
            self._explain(f"Cannot stop {self.target.title}.", self.target.refusal)
        else:
            question = wrapped(f"Stop {self.target.title}?", self._columns(), "accent")
            self._show(
                [*question, BLANK, *wrapped(self.target.what_happens, self._columns())],
                [
                    Field("no", "No, let it run", "button", detail=(Span("Esc or n", "dim"),), help="nothing is signaled"),
                    Field("yes", "Yes, stop it", "button", detail=(Span("y", "dim"),), help="asks it to end, now"),
                ],
            )
        form.focus()

    def show(self, view: View) -> None:
        """Do nothing: new values do not change the question."""

    def _columns(self) -> int:
        return max(20, min(_COLUMNS, self.app.size.width - 4))

    def _explain(self, message: str, hint: str) -> None:
        self.failed = True
        lines = [*wrapped(message, self._columns(), "bad"), *wrapped(hint, self._columns())]
        self._show(lines, [Field("no", "Close", "button", detail=(Span("Enter or Esc", "dim"),), help="back")])

    def _show(self, text: list[Line], buttons: list[Field]) -> None:
        form = self.query_one("#question", Form)
        form.styles.height = len(text) + len(buttons) + 3
        notes = [Field(f"text {number}", "", "note", detail=line) for number, line in enumerate(text)]
        form.set_fields([*notes, Field("space", "", "note"), *buttons], cursor="no")

    def on_form_button_pressed(self, event: Form.ButtonPressed) -> None:
        """Act on the pressed button."""
        event.stop()
        if event.name == "yes":
            self.action_yes()
        else:
            self.action_no()

    def action_no(self) -> None:
        """Leave it running."""
        self.dismiss(False)

    def action_yes(self) -> None:
        """Stop it and report success; on failure, show the reason and stay open."""
        if self.failed:
            return
        try:
            done = stop(self.target)
        except GputopError as error:
            self._explain(error.message, error.hint)
            return
        self.app.notify(done, timeout=5)
        self.dismiss(True)

    def action_nothing(self) -> None:
        """Ignore a key."""


def open_stop(app: App[Any], target: StopTarget, view: View) -> None:
    """Ask whether to stop ``target``."""
    app.push_screen(StopScreen(target, view.settings.ascii))
