"""What confirmation questions share: a box with a text and buttons, of which the first does nothing and is preselected."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import ModalScreen

from gputop.tui.drawing.line import Line
from gputop.tui.state.keys import APP_KEYS
from gputop.tui.state.view import View
from gputop.tui.terminal.settled_screen import SettledScreen
from gputop.tui.widgets.form import Field, Form

_COLUMNS = 66
"""Cells of a line of the box, if the terminal is wide enough."""


class Question(SettledScreen[bool], ModalScreen[bool]):
    """A box above the screen that it is about; dismisses with True if something was done."""

    DEFAULT_CSS = f"""
    Question {{ align: center middle; }}
    Question #question {{ width: {_COLUMNS + 4}; max-width: 100%; }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        # The keys of the screens below do nothing while the question is open.
        *(Binding(key.keys, "nothing", show=False) for key in APP_KEYS if key.action not in ("leave", "stop_chosen")),
        Binding("escape,n,k,f9", "no", "no", show=False),
    ]

    ABOUT = ""
    """The text in the frame."""

    def __init__(self, ascii_only: bool = False) -> None:
        super().__init__()
        self.ascii_only = ascii_only

    def compose(self) -> ComposeResult:
        """Yield the form with the question."""
        yield Form(self.ABOUT, id="question")

    def on_mount(self) -> None:
        """Ask."""
        self.styles.background = "transparent"  # here, because the app's own stylesheet overrides a DEFAULT_CSS
        form = self.query_one("#question", Form)
        form.ascii = self.ascii_only
        self.ask()
        self.focus_now(form)

    def ask(self) -> None:
        """Show the question."""
        raise NotImplementedError

    def show(self, view: View) -> None:
        """Do nothing: new values do not change the question."""

    def columns(self) -> int:
        """Return the cells of a line of the box."""
        return max(20, min(_COLUMNS, self.app.size.width - 4))

    def put(self, text: Sequence[Line], buttons: Sequence[Field]) -> None:
        """Show a text with buttons below it, the first of them chosen; a text that is too long scrolls."""
        form = self.query_one("#question", Form)
        form.styles.height = min(len(text) + len(buttons) + 3, max(5, self.app.size.height))
        notes = [Field(f"text {number}", "", "note", detail=line) for number, line in enumerate(text)]
        form.set_fields([*notes, Field("space", "", "note"), *buttons], cursor=buttons[0].name)
        self.settle()

    def action_no(self) -> None:
        """Leave everything as it is."""
        self.dismiss(False)

    def action_nothing(self) -> None:
        """Ignore a key."""
