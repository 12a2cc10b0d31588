"""A form of one-line fields: check marks, numbers, texts, choices and buttons, navigated with the arrow keys.

It is one widget however many fields it has, fits a small terminal, and shows the chosen field's help in its frame. Values are
strings (bools for check marks); an error is shown next to its field.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from textual import events
from textual.message import Message

from gputop.errors import GputopError
from gputop.tui.drawing.line import Line, Span, clean, fit_text
from gputop.tui.widgets.choice_list import ChoiceList, Item

_TYPED = ("int", "float", "text")
_LABEL_COLUMNS = (16, 24)
"""The minimum and maximum width of the labels, in cells."""
_BOX_COLUMNS = 12
"""The least width of the box around a typed value, in cells."""
_EXPECTED = {"int": "whole number", "float": "number"}


@dataclass(slots=True)
class Field:
    """One line of a form. ``value`` is a bool for "check", the typed text for text kinds, one of ``choices`` for "choice".

    ``detail`` follows the value (a GPU's free memory); it is all that a "note" shows besides its label. ``digit`` is a key that
    toggles a check mark while the cursor is on any check mark.
    """

    name: str
    label: str
    kind: str
    """"check", "int", "float", "text", "choice", "button" or "note"."""
    value: Any = ""
    choices: tuple[str, ...] = ()
    help: str = ""
    detail: Line = ()
    digit: str = ""
    check: Callable[[str], object] | None = None
    """Raises a ``GputopError`` if the typed or chosen value is invalid; its message is shown next to the field."""
    default: str = ""
    """Shown next to a typed value that differs from it."""
    error: str = ""
    fresh: bool = True
    """True until something is typed: the first character replaces the value."""


class Form(ChoiceList):
    """Shows fields and lets the user change them."""

    DEFAULT_CSS = "Form { height: 1fr; }"

    class Changed(Message):
        """A value changed."""

        def __init__(self, form: Form, name: str) -> None:
            super().__init__()
            self.form = form
            self.name = name

        @property
        def control(self) -> Form:
            """The form."""
            return self.form

    class ButtonPressed(Changed):
        """A button was pressed."""

    def __init__(self, title: str = "", digit: str = "", *, id: str | None = None) -> None:  # noqa: A002 - Textual's own name
        super().__init__(title, digit, id=id)
        self.fields: tuple[Field, ...] = ()
        self._message_lines: tuple[Line, ...] = ()
        self._message_below = ""

    # Contents

    def set_fields(self, fields: Sequence[Field], *, cursor: str | None = None) -> None:
        """Replace the fields; ``cursor`` names the field to start on."""
        self.fields = tuple(fields)
        self._message_lines = ()
        if cursor is not None:
            self.chosen = cursor
        self.redraw()

    def field(self, name: str) -> Field:
        """Return the field with this name.

        Raises:
            KeyError: there is none.
        """
        for field in self.fields:
            if field.name == name:
                return field
        raise KeyError(name)

    def show_message(self, lines: Sequence[Line], below: str) -> None:
        """Show lines below the field named ``below``: an error and its hint, or a result. Empty removes them."""
        self._message_lines, self._message_below = tuple(lines), below
        self.redraw()

    def values(self) -> dict[str, str] | None:
        """Return the typed and chosen texts; if one is invalid, put the cursor on its field, show the error and return None."""
        result: dict[str, str] = {}
        wrong: str | None = None
        for field in self.fields:
            if field.kind not in (*_TYPED, "choice"):
                continue
            result[field.name] = text = str(field.value).strip()
            field.error = ""
            if field.check is None:
                continue
            try:
                field.check(text)
            except GputopError as error:
                field.error = str(error)
                wrong = wrong or field.name
        if wrong is not None:
            self.chosen = wrong
        self.redraw()
        return None if wrong is not None else result

    def redraw(self) -> None:
        """Redraw the fields after a change from outside."""
        items: list[Item] = []
        for field in self.fields:
            chosen = field.name == self.chosen and self.has_focus
            items.append(Item(self._line(field, chosen), None if field.kind == "note" else field.name))
            if field.name == self._message_below:
                items += [Item(line) for line in self._message_lines]
        self.set_items(items, subtitle=self.subtitle, footer=self._footer())

    def _footer(self) -> Line:
        field = self._current()
        if field is None or not self.has_focus:
            return ()
        how = {
            "check": "Space toggles" if not field.digit else "Space or the GPU's digit toggles",
            "choice": "Left/Right or Space changes",
            "button": "Enter",
            "text": "type",
        }.get(field.kind, "type, or Left/Right")
        return (Span(f"{how}. " if field.kind != "button" else "Enter: ", "key"), Span(clean(field.help), "dim"))

    def _line(self, field: Field, chosen: bool) -> Line:
        if field.kind == "note":
            return (*((Span(field.label, "dim"),) if field.label else ()), *field.detail)
        if field.kind == "button":
            return (Span(f"[ {field.label} ]", "accent"), Span("  "), *field.detail)
        if field.kind == "check":
            mark = Span("[x]" if field.value else "[ ]", "value" if field.value else "dim")
            return (mark, Span(f" {field.label}"), *field.detail, *_error(field))
        label = Span(fit_text(field.label, self._label_columns()), "dim")
        if field.kind == "choice":
            shown: Line = (Span("< ", "dim"), Span(str(field.value), "value"), Span(" >", "dim"))
        else:
            text = self._typed(field, chosen)
            shown = (Span("[", "dim"), Span(f"{text:<{_BOX_COLUMNS}}", "value"), Span("]", "dim"))
        usual = field.default if field.default and field.default != str(field.value).strip() else ""
        default: Line = (Span(f"  default {clean(usual)}", "dim"),) if usual else ()
        return (label, *shown, *_error(field), *default, Span("  "), *field.detail)

    def _label_columns(self) -> int:
        longest = max((len(field.label) + 1 for field in self.fields if field.kind in (*_TYPED, "choice")), default=0)
        return min(_LABEL_COLUMNS[1], max(_LABEL_COLUMNS[0], longest))

    def _typed(self, field: Field, chosen: bool) -> str:
        """Return the visible part of the typed text: the end of a long text, where the user is typing."""
        text = f"{clean(str(field.value))}{'_' if chosen else ''}"
        room = max(8, (self.inner_size.width or 80) - self._label_columns() - 2)
        return text if len(text) <= room else f"{'...' if self.ascii else '…'}{text[-(room - 3) :]}"

    def _current(self) -> Field | None:
        return next((field for field in self.fields if field.name == self.chosen), None)

    # Editing

    def _choose(self, key: str) -> None:
        before = self._current()
        super()._choose(key)
        if before is not None:
            before.fresh, before.error = True, ""
        self.redraw()

    def watch_has_focus(self, has_focus: bool) -> None:
        """Show which field is active, or that keys now go elsewhere."""
        super().watch_has_focus(has_focus)
        self.redraw()

    def _index(self) -> int | None:
        """Hide the cursor while the form does not have the focus."""
        return super()._index() if self.has_focus else None

    def on_key(self, event: events.Key) -> None:
        """Type into the chosen field, or change it."""
        field = self._current()
        if field is not None and self._handle(field, event):
            event.stop()
            event.prevent_default()

    def on_paste(self, event: events.Paste) -> None:
        """Paste into the chosen field, using only the first line because fields are single-line."""
        field = self._current()
        if field is None or field.kind not in _TYPED:
            return
        event.stop()
        text = "".join(sign for sign in event.text.strip().split("\n", 1)[0] if sign.isprintable() and _fits(field.kind, sign))
        field.value = text if field.fresh else f"{field.value}{text}"
        field.fresh, field.error = False, ""
        self._field_changed(field)

    def _handle(self, field: Field, event: events.Key) -> bool:
        if event.key in ("left", "right"):
            return self._turn(field, 1 if event.key == "right" else -1)
        if field.kind in _TYPED:
            return self._type(field, event)
        if event.key == "space":
            self.action_press()
            return True
        if field.kind == "choice" and event.is_printable:
            self._jump(field, event.character or "")
            return True
        if field.kind == "check" and event.character:
            other = next((item for item in self.fields if item.kind == "check" and item.digit == event.character), None)
            if other is not None:
                self._toggle(other)
                return True
        return False

    def _type(self, field: Field, event: events.Key) -> bool:
        text = "" if field.fresh and event.is_printable else str(field.value)
        if event.key == "backspace":
            text = text[:-1]
        elif event.key in ("delete", "ctrl+u"):
            text = ""
        elif event.is_printable and event.character and _fits(field.kind, event.character):
            text += event.character
        elif event.is_printable:
            # A letter in a number is a typing error, never the key of another action: "q" would end gputop.
            field.error = f"a {_EXPECTED[field.kind]}, please"
            self.redraw()
            return True
        else:
            return False
        field.value, field.fresh, field.error = text, False, ""
        self._field_changed(field)
        return True

    def _turn(self, field: Field, by: int) -> bool:
        if field.kind == "choice":
            at = field.choices.index(field.value) if field.value in field.choices else 0
            field.value = field.choices[(at + by) % len(field.choices)]
        elif field.kind == "int" and str(field.value).isdigit():
            field.value = str(max(0, int(field.value) + by))
        else:
            return field.kind in _TYPED
        field.error = ""
        self._field_changed(field)
        return True

    def _jump(self, field: Field, character: str) -> None:
        """Take the next choice that begins with the character, if there is one."""
        at = field.choices.index(field.value) + 1 if field.value in field.choices else 0
        ahead = (*field.choices[at:], *field.choices[:at])
        found = next((choice for choice in ahead if choice.casefold().startswith(character.casefold())), None)
        if found is not None:
            field.value, field.error = found, ""
            self._field_changed(field)

    def _toggle(self, field: Field) -> None:
        field.value = not field.value
        field.error = ""
        self._field_changed(field)

    def _field_changed(self, field: Field) -> None:
        self._message_lines = ()
        self.redraw()
        self.post_message(self.Changed(self, field.name))

    def action_press(self) -> None:
        """Press a button, toggle a check mark, take a choice's next value, or move to the next field."""
        field = self._current()
        if field is None:
            return
        if field.kind == "button":
            self.post_message(self.ButtonPressed(self, field.name))
        elif field.kind == "check":
            self._toggle(field)
        elif field.kind == "choice":
            self._turn(field, 1)
        else:
            self._move(1)

    def _clicked(self, key: str) -> None:
        """Move the cursor to the clicked field; activate a button, check mark or choice at once."""
        self._choose(key)
        field = self._current()
        if field is not None and field.kind in ("button", "check", "choice"):
            self.action_press()


def _fits(kind: str, character: str) -> bool:
    return kind == "text" or character.isdigit() or (kind == "float" and character in ".e-+")


def _error(field: Field) -> Line:
    return (Span(f"  {field.error}", "bad"),) if field.error else ()
