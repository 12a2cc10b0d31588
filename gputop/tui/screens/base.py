"""What all screens except the dashboard share: a header line, a clickable key bar, Esc to go back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size

from gputop import units
from gputop.tui.drawing.header import badges_of, waiting_for
from gputop.tui.drawing.line import Line, Span, clean, joined, spread, text_width
from gputop.tui.state.view import View
from gputop.tui.terminal.settled_screen import SettledScreen
from gputop.tui.widgets.lines import LinesWidget

SMALL = (100, 30)
"""Below this many columns or rows, a screen gets the class "small" and shows less at once."""
LOW_ROWS = 40
"""Below this many rows, a screen gets the class "low": it shows everything, in less space."""


class KeyHint(NamedTuple):
    """A key, what it does, and the screen or app action behind it (for mouse clicks)."""

    key: str
    what: str
    action: str = ""
    drop: int = 5
    """The order in which a narrow line drops keys: the highest number first, among equals the last; 0 stays."""


BACK = KeyHint("Esc", "back", "screen.back", 0)
MORE = KeyHint("?", "more", "app.help", 0)
EVERYWHERE = (
    KeyHint("S", "picture", "app.save_screen", 8),
    KeyHint(":", "actions", "app.palette", 0),
    KeyHint("?", "help", "app.help", 0),
)
"""The keys that a screen over the dashboard names last, if there is room."""


def fitted(hints: Sequence[KeyHint], columns: int) -> tuple[KeyHint, ...]:
    """Return the hints that fit into a line; if some are left out, the one for the help says so."""
    if _columns_of(hints) <= columns:
        return tuple(hints)
    kept = [MORE if hint.key == MORE.key else hint for hint in hints]
    if MORE not in kept:
        kept.append(MORE)
    while _columns_of(kept) > columns and (others := [hint for hint in kept if hint is not MORE]):
        last = max(hint.drop for hint in others)
        kept.remove([hint for hint in others if hint.drop == last][-1])
    return tuple(kept)


def _columns_of(hints: Sequence[KeyHint]) -> int:
    return sum(text_width(hint.key) + text_width(hint.what) + 3 for hint in hints) - 1


class KeyBar(LinesWidget):
    """One line that names the keys and what they do; a click triggers the action. Takes no focus."""

    DEFAULT_CSS = "KeyBar { height: 1; dock: bottom; }"

    def __init__(self, hints: Sequence[KeyHint] = ()) -> None:
        super().__init__()
        self.hints = tuple(hints)
        self._places: list[tuple[int, int, str]] = []
        self._lay_out()

    def set_hints(self, hints: Sequence[KeyHint]) -> None:
        """Replace the keys shown."""
        if tuple(hints) != self.hints:
            self.hints = tuple(hints)
            self._lay_out()

    def resized(self) -> None:
        """Drop the least needed keys if they do not fit."""
        self._lay_out(paint=False)

    def _lay_out(self, paint: bool = True) -> None:
        spans: list[Span] = [Span(" ")]
        self._places, at = [], 1
        room = self.size.width or 80
        for hint in fitted(self.hints, room):
            columns = text_width(hint.key) + 1 + text_width(hint.what)
            self._places.append((at, at + columns, hint.action))
            spans += [Span("  ")] * (at > 1) + [Span(hint.key, "key"), Span(f" {hint.what}", "dim")]
            at += columns + 2
        if paint:
            self.set_lines([tuple(spans)])
        else:
            self.lines = (tuple(spans),)

    def on_lines_widget_line_clicked(self, event: LinesWidget.LineClicked) -> None:
        """Run the action that was clicked."""
        event.stop()
        for start, end, action in self._places:
            if start <= event.column < end and action:
                # Queue it on the app, as a key press would be: an action that waits for a new screen must not block this
                # widget.
                self.app.call_later(self.run_action, action)


class SubScreen(SettledScreen[None]):
    """A screen opened over the dashboard. Subclasses yield their panes in ``compose_body`` and draw in ``draw``."""

    DEFAULT_CSS = "SubScreen #head { height: 1; dock: top; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "back", show=False),
        Binding("tab", "app.focus_next", "next pane", show=False),
        Binding("shift+tab", "app.focus_previous", "previous pane", show=False),
    ]
    NAME = ""
    HINTS: tuple[KeyHint, ...] = ()
    COMMON: tuple[KeyHint, ...] = EVERYWHERE

    def __init__(self, view: View | None = None) -> None:
        super().__init__()
        self.view = view

    def compose(self) -> ComposeResult:
        """Lay out the header, the body and the key bar."""
        yield LinesWidget(id="head")
        yield from self.compose_body()
        yield KeyBar(self.named(self.HINTS))

    def named(self, hints: Sequence[KeyHint]) -> tuple[KeyHint, ...]:
        """Return these keys between those of every screen."""
        known = {hint.key for hint in hints}
        return (BACK, *hints, *(hint for hint in self.COMMON if hint.key not in known))

    def compose_body(self) -> ComposeResult:
        """Yield the widgets between the header and the key bar."""
        yield from ()

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """Take what arrived while another screen covered this one."""
        newest = getattr(self.app, "view", None)
        if isinstance(newest, View):
            self.take(newest)

    def repeat(self, every_s: float, call: Callable[[], None]) -> None:
        """Call now, and then at this interval for as long as the screen exists."""
        call()
        self.set_interval(every_s, call)

    def take_size(self, size: Size) -> None:
        """Choose what a screen of this size shows."""
        self.choose_classes(small=size.width < SMALL[0] or size.height < SMALL[1], low=size.height < LOW_ROWS)

    def show(self, view: View) -> None:
        """Draw the newest view."""
        self.take(view)
        self.settle()

    def take(self, view: View) -> None:
        """Take the view that is drawn from now on."""
        self.view = view

    def set_heights(self) -> None:
        """Adapt the panes to the terminal; subclasses set heights here."""
        if self.view is not None:
            for pane in self.query(LinesWidget):
                pane.draw_ascii(self.view.settings.ascii)

    def fill(self) -> None:
        """Draw the header and the body; without a view, only what the screen waits for."""
        view = self.view
        if view is None:
            head, waiting = self.query_one("#head", LinesWidget), waiting_for(getattr(self.app, "remote", None))
            head.set_lines([spread((*self._called(head.ascii), waiting), (), self.size.width)])
            return
        self.draw_head(view)
        self.draw(view)

    def draw(self, view: View) -> None:
        """Draw the body; called for each new view and size."""

    def head_text(self, view: View) -> Line:
        """Return what follows the screen's name in the header."""
        return (Span(clean(view.snapshot.host.hostname), "text"),)

    def draw_head(self, view: View) -> None:
        """Draw the header: which screen this is, and whether its values are current."""
        head = self.query_one("#head", LinesWidget)
        right = (
            *joined(badges_of(view), Span("  ")),
            Span(f"  {units.clock(view.snapshot.time)} ", "text"),
        )
        head.set_lines([spread((*self._called(view.settings.ascii), *self.head_text(view)), right, self.size.width)])

    def _called(self, ascii_only: bool) -> Line:
        return (Span(" gputop", "title"), Span(" > " if ascii_only else " › ", "dim"), Span(f"{self.NAME}  ", "accent"))

    def action_back(self) -> None:
        """Go back to the screen below."""
        if len(self.app.screen_stack) > 1 and self.app.screen is self:
            self.app.pop_screen()
