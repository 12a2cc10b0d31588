"""The settings screen: a change applies at once; "Save" keeps it for the next start."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType

from gputop import places, units
from gputop.errors import GputopError
from gputop.history.smoothing import SMOOTHINGS
from gputop.settings.file import read_settings, save_settings
from gputop.settings.table import DENSITIES
from gputop.settings.values import THEMES, Settings
from gputop.tui.drawing.line import Line, Span
from gputop.tui.drawing.prose import wrapped
from gputop.tui.screens.base import KeyHint, SubScreen
from gputop.tui.state.view import View
from gputop.tui.widgets.form import Field, Form

INTERVALS = ("0.2 s", "0.5 s", "1 s", "2 s", "5 s", "10 s", "30 s", "60 s")
SMOOTHING_CHOICES = tuple(f"{weight:g}" for weight in SMOOTHINGS)


class SettingsScreen(SubScreen):
    """Shows the settings; calls ``change`` with each new value (the app's ``change_settings``)."""

    NAME = "settings"
    DEFAULT_CSS = "SettingsScreen Form { height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+s,f5", "save", "save the settings", show=False),
        Binding("f2", "back", "back", show=False),
    ]
    HINTS = (
        KeyHint("Up/Down", "move"),
        KeyHint("Space Left/Right", "change at once"),
        KeyHint("Ctrl-S", "save", "screen.save"),
    )
    COMMON = ()
    """Empty, because the fields take every printable key."""

    def __init__(self, view: View, change: Callable[[Settings], None]) -> None:
        super().__init__(view)
        self.change = change
        self.settings = view.settings

    def compose_body(self) -> ComposeResult:
        """Yield the form."""
        yield Form("Settings", id="settings")

    def on_mount(self) -> None:
        """Fill the form."""
        self._fill()
        self.focus_now(self.query_one("#settings", Form))

    def take(self, view: View) -> None:
        """Take settings that keys changed elsewhere (the interval), without touching the field being edited."""
        if view.settings != self.settings and self.display:
            self.settings = view.settings
            for field in self.query_one("#settings", Form).fields:
                if field.name in _READERS:
                    field.value = _shown(field.name, getattr(self.settings, field.name))
                    if field.kind == "choice":
                        field.choices = _with(field.choices, field.value)
            self.query_one("#settings", Form).redraw()
        super().take(view)

    def _fill(self) -> None:
        path = places.config_path()
        theme = _choice("theme", "theme", THEMES, self.settings, "colorblind: blue, orange; ansi: 16 colors")
        if not self.settings.color:
            theme = replace(theme, detail=(Span("for later: NO_COLOR or --no-color is in effect", "dim"),))
        fields = [
            theme,
            _check("ascii", "draw with ASCII characters only", self.settings, "for fonts without box drawing"),
            _choice("interval_s", "interval", INTERVALS, self.settings, "how often the GPUs are read"),
            _choice("density", "GPU rows", DENSITIES, self.settings, "compact shows more GPUs at once"),
            Field("charts", "", "note"),
            _check("log_axis", "logarithmic y axis for the loss", self.settings, "Y switches it in a chart"),
            _choice("smoothing", "smoothing", SMOOTHING_CHOICES, self.settings, "0 shows a curve without smoothing"),
            _check("per_rank", "one curve per rank, not mean and spread", self.settings, "r switches it in a chart"),
            Field("space", "", "note"),
            Field("save", "Save", "button", detail=(Span(str(path), "dim"),), help="keep these for the next start"),
        ]
        self.query_one("#settings", Form).set_fields(fields, cursor="theme")
        self._show_problems()

    def _show_problems(self) -> None:
        form = self.query_one("#settings", Form)
        lines: list[Line] = []
        for problem in read_settings().problems:
            lines += _problem_lines(problem.message, problem.hint, self.app.size.width - 6)
        form.show_message(lines, "save")

    def on_form_changed(self, event: Form.Changed) -> None:
        """Apply the new value at once."""
        event.stop()
        field = event.form.field(event.name)
        self.settings = replace(self.settings, **{field.name: _READERS[field.name](field.value)})
        self.change(self.settings)

    def on_form_button_pressed(self, event: Form.ButtonPressed) -> None:
        """Save, or overwrite a broken file after the user confirms."""
        event.stop()
        self._save(overwrite_broken=event.name == "overwrite")

    def action_save(self) -> None:
        """Save."""
        self._save(overwrite_broken=False)

    def _save(self, *, overwrite_broken: bool) -> None:
        form = self.query_one("#settings", Form)
        fields = [field for field in form.fields if field.name != "overwrite"]
        columns = self.app.size.width - 6
        try:
            path = save_settings(self.settings, overwrite_broken=overwrite_broken)
        except GputopError as error:
            if read_settings().broken:
                what = "the broken file is lost"
                fields.append(Field("overwrite", "Overwrite it", "button", detail=(Span(what, "warn"),), help=what))
            form.set_fields(fields, cursor="save")
            form.show_message(_problem_lines(error.message, error.hint, columns), "save")
            return
        form.set_fields(fields, cursor="save")
        form.show_message(wrapped(f"Saved in {path}.", columns, "ok"), "save")


def _problem_lines(message: str, hint: str, columns: int) -> list[Line]:
    return [*wrapped(message, max(20, columns), "bad"), *wrapped(hint, max(20, columns))]


def _with(choices: tuple[str, ...], value: str) -> tuple[str, ...]:
    return choices if value in choices else (*choices, value)


def _shown(name: str, value: Any) -> Any:
    if name == "interval_s":
        return f"{value:g} s"
    return f"{value:g}" if name == "smoothing" else value


def _choice(name: str, label: str, choices: tuple[str, ...], settings: Settings, what: str) -> Field:
    value = _shown(name, getattr(settings, name))
    return Field(name, label, "choice", value, _with(choices, value), what)


def _check(name: str, label: str, settings: Settings, what: str) -> Field:
    return Field(name, label, "check", getattr(settings, name), help=what)


_READERS: dict[str, Callable[[Any], Any]] = {
    "theme": str,
    "ascii": bool,
    "interval_s": units.parse_duration,
    "density": str,
    "log_axis": bool,
    "smoothing": float,
    "per_rank": bool,
}
