"""What the screens besides the dashboard share: a head line, a line of keys that can be clicked, Esc to go back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from gputop import units
from gputop.tui.drawing.header import badges_of
from gputop.tui.drawing.line import Line, Span, clean, joined, spread, text_width
from gputop.tui.state.view import View
from gputop.tui.widgets.lines import LinesWidget

SMALL = (100, 30)
"""Below so many columns or rows a screen has the class "small" and shows less at once."""
LOW_ROWS = 40
"""Below so many rows a screen has the class "low": everything is there, in less room."""


class KeyHint(NamedTuple):
    """A key, what it does, and the screen's or app's action behind it (for the mouse)."""

    key: str
    what: str
    action: str = ""


class KeyBar(LinesWidget):
    """One line that says which key does what; a click does it. Takes no focus."""

    DEFAULT_CSS = "KeyBar { height: 1; dock: bottom; }"

    def __init__(self, hints: Sequence[KeyHint] = ()) -> None:
        super().__init__()
        self.hints = tuple(hints)
        self._places: list[tuple[int, int, str]] = []
        self._form()

    def set_hints(self, hints: Sequence[KeyHint]) -> None:
        """Show other keys."""
        if tuple(hints) != self.hints:
            self.hints = tuple(hints)
            self._form()

    def resized(self) -> None:
        """Leave out the last keys where there is no room for them."""
        self._form(paint=False)

    def _form(self, paint: bool = True) -> None:
        spans: list[Span] = [Span(" ")]
        self._places, at = [], 1
        room = self.size.width or 80
        for hint in self.hints:
            columns = text_width(hint.key) + 1 + text_width(hint.what)
            if at + columns > room:
                break
            self._places.append((at, at + columns, hint.action))
            spans += [Span(hint.key, "key"), Span(f" {hint.what}  ", "dim")]
            at += columns + 2
        if paint:
            self.set_lines([tuple(spans)])
        else:
            self.lines = (tuple(spans),)

    def on_lines_widget_line_clicked(self, event: LinesWidget.LineClicked) -> None:
        """Do what was clicked."""
        event.stop()
        for start, end, action in self._places:
            if start <= event.column < end and action:
                # In the app's turn, as a key would: an action that waits for a new screen must not wait in this widget's.
                self.app.call_later(self.run_action, action)


class SubScreen(Screen[None]):
    """A screen that was opened over the dashboard. Subclasses yield their panes in ``compose_body`` and draw in ``draw``."""

    DEFAULT_CSS = "SubScreen #head { height: 1; dock: top; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", show=False),
        Binding("tab", "app.focus_next", show=False),
        Binding("shift+tab", "app.focus_previous", show=False),
    ]
    NAME = ""
    HINTS: tuple[KeyHint, ...] = ()

    def __init__(self, view: View | None = None) -> None:
        super().__init__()
        self.view = view

    def compose(self) -> ComposeResult:
        """Lay out the head, the body and the keys."""
        yield LinesWidget(id="head")
        yield from self.compose_body()
        yield KeyBar((KeyHint("Esc", "back", "screen.back"), *self.HINTS))

    def compose_body(self) -> ComposeResult:
        """Yield the widgets between head and keys."""
        yield from ()

    def on_mount(self) -> None:
        """Draw what is known already."""
        if self.view is not None:
            self.show(self.view)

    def on_resize(self, event: events.Resize) -> None:
        """Lay out and draw for the new size."""
        columns, rows = event.size
        self.set_class(columns < SMALL[0] or rows < SMALL[1], "small")
        self.set_class(rows < LOW_ROWS, "low")
        self.draw_after_layout()

    def on_screen_resume(self) -> None:
        """Draw what has come while another screen lay over this one."""
        newest = getattr(self.app, "view", None)
        if isinstance(newest, View):
            self.show(newest)

    def draw_after_layout(self) -> None:
        """Draw when the panes have their new sizes."""
        if self.view is not None:
            self.call_after_refresh(self.show, self.view)

    def show(self, view: View) -> None:
        """Take the newest view and draw it."""
        self.view = view
        if not self.is_mounted or not self.size:
            return
        with self.app.batch_update():
            for pane in self.query(LinesWidget):
                pane.ascii = view.settings.ascii
            self.draw_head(view)
            self.draw(view)

    def draw(self, view: View) -> None:
        """Draw the body; called with each new view and after a change of size."""

    def head_text(self, view: View) -> Line:
        """Return what stands after the screen's name."""
        return (Span(clean(view.snapshot.host.hostname), "text"),)

    def draw_head(self, view: View) -> None:
        """Draw the first line: where one is, and whether the values are of now."""
        head = self.query_one("#head", LinesWidget)
        left = (
            Span(" gputop", "title"),
            Span(" › " if not view.settings.ascii else " > ", "dim"),
            Span(f"{self.NAME}  ", "accent"),
        )
        right = (
            *joined(badges_of(view), Span("  ")),
            Span(f"  {units.clock(view.snapshot.time)} ", "text"),
        )
        head.set_lines([spread((*left, *self.head_text(view)), right, self.size.width)])

    def action_back(self) -> None:
        """Go back to the screen below."""
        if len(self.app.screen_stack) > 1 and self.app.screen is self:
            self.app.pop_screen()
