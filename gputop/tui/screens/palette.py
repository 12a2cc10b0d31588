"""The palette: every action of the screen and of the app with its key, searched by typing.

It lists the bindings themselves, each with its description: every action that has a key is in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.screen import ModalScreen, Screen

from gputop.tui.drawing.line import Span, clean, fit_text
from gputop.tui.state.keys import APP_KEYS, key_name
from gputop.tui.state.view import View
from gputop.tui.terminal.settled_screen import SettledScreen
from gputop.tui.widgets.choice_list import ChoiceList, Item

NOT_LISTED = frozenset(("line", "page", "edge", "press", "palette", "screen.copy_text", "quit", "help_quit"))
"""Actions that only move or choose, the palette itself, and Textual's own."""
_COLUMNS, _ROWS = 80, 18
_KEY_COLUMNS = 16
WORD_COLUMNS = _COLUMNS - 4 - _KEY_COLUMNS
"""Cells for an action's description: on a terminal of 80 columns it is not cut."""


class Choice(NamedTuple):
    """An action: its keys, what it does, and where to run it."""

    keys: str
    what: str
    action: str
    node: DOMNode


def choices(screen: Screen[Any]) -> tuple[Choice, ...]:
    """Return what keys do on this screen now, in the order in which they are looked up: the focused pane's first."""
    found: dict[tuple[str, DOMNode], Choice] = {}
    for key, (node, binding, enabled, _) in screen.active_bindings.items():
        if not enabled or binding.action.partition("(")[0] in NOT_LISTED or not binding.description:
            continue
        known = found.get((binding.action, node))
        keys = f"{known.keys}  {key_name(key)}" if known is not None else key_name(key)
        found[binding.action, node] = Choice(keys, binding.description, binding.action, node)
    return tuple(found.values())


class ActionList(ChoiceList):
    """The actions that contain every typed word; each printable key belongs to the search."""

    def __init__(self, all_choices: Sequence[Choice]) -> None:
        super().__init__("Actions", id="palette")
        self.choices = tuple(all_choices)
        self.typed = ""

    def found(self) -> list[tuple[int, Choice]]:
        """Return the choices that contain every typed word, with their numbers; those that begin with the text come first."""
        words = self.typed.casefold().split()
        kept = [
            (number, choice)
            for number, choice in enumerate(self.choices)
            if all(word in f"{choice.what} {choice.keys}".casefold() for word in words)
        ]
        return sorted(kept, key=lambda item: not item[1].what.casefold().startswith(self.typed.strip().casefold()))

    def fill(self) -> None:
        """Show what is typed and the actions found, the first of them chosen."""
        found = self.found()
        typed = Span(f"{clean(self.typed)}_", "value")
        above = Item((Span(": ", "key"), typed, Span("" if self.typed else "  type to search", "dim")))
        items = [
            Item((Span(fit_text(choice.keys, _KEY_COLUMNS), "key"), Span(choice.what)), str(number)) for number, choice in found
        ]
        none = Item((Span("No action of this screen has these words. The help (?) lists all keys.", "dim"),))
        self.chosen = str(found[0][0]) if found else None
        self.header_lines, self.first = 1, 1
        self.set_items([above, *(items or [none])], footer=(Span("Enter runs it, Esc closes", "dim"),))

    def on_key(self, event: events.Key) -> None:
        """Change what is searched for."""
        if event.key in ("backspace", "ctrl+h"):
            self.typed = self.typed[:-1]
        elif event.key in ("ctrl+u", "ctrl+w"):
            self.typed = ""
        elif event.is_printable and event.character:
            self.typed += event.character
        else:
            return
        event.stop()
        event.prevent_default()
        self.fill()

    def on_paste(self, event: events.Paste) -> None:
        """Append the first line of a paste."""
        event.stop()
        self.typed += clean((event.text.splitlines() or [""])[0])
        self.fill()


class PaletteScreen(SettledScreen[None], ModalScreen[None]):
    """Lists the choices and runs the one that is taken."""

    NAME = "palette"
    DEFAULT_CSS = f"""
    PaletteScreen {{ align: center middle; }}
    PaletteScreen ActionList {{ width: {_COLUMNS}; max-width: 100%; height: {_ROWS}; max-height: 100%; }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        # The keys of the screens below do nothing while the palette is open.
        *(Binding(key.keys, "nothing", show=False) for key in APP_KEYS if key.action != "leave"),
        Binding("escape", "close", show=False),
    ]

    def __init__(self, all_choices: Sequence[Choice], ascii_only: bool = False) -> None:
        super().__init__()
        self.actions = ActionList(all_choices)
        self.actions.ascii = ascii_only

    def compose(self) -> ComposeResult:
        """Yield the list."""
        yield self.actions

    def on_mount(self) -> None:
        """Show every action."""
        self.styles.background = "transparent"  # here, because the app's own stylesheet overrides a DEFAULT_CSS
        self.focus_now(self.actions)
        self.actions.fill()

    def show(self, view: View) -> None:
        """Do nothing: new values do not change the actions."""

    def on_choice_list_pressed(self, event: ChoiceList.Pressed) -> None:
        """Close, and run the chosen action where its key would."""
        event.stop()
        chosen = self.actions.choices[int(event.key)]
        self.dismiss()
        self.app.call_later(self.app.run_action, chosen.action, chosen.node)

    def action_close(self) -> None:
        """Close without an action."""
        self.dismiss()

    def action_nothing(self) -> None:
        """Ignore a key."""
