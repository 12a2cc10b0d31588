"""The keys that the launch screen names in its last line: those of the pane with the focus."""

from __future__ import annotations

from collections.abc import Mapping

from gputop.tui.screens.base import KeyHint

_START = (KeyHint("F5", "start", "screen.start", 1), KeyHint("F6", "at 1, 2, 4 GPUs", "screen.start_series", 6))
_STOP = KeyHint("x", "stop the job", "screen.stop", 2)
_COMPARE = KeyHint("c", "compare", "screen.compare", 4)
_PANES = KeyHint("Tab 1-4", "panes", "app.focus_next")

RECIPES = (
    KeyHint("Up/Down", "recipe", "", 3),
    KeyHint("/", "search", "screen.pane('recipes')", 1),
    KeyHint("Enter", "its form", "screen.pane('form')", 2),
    *_START,
    _COMPARE,
    _STOP,
    _PANES,
)
FORM = (
    KeyHint("Up/Down", "field", "", 3),
    *_START,
    KeyHint("Tab", "panes", "app.focus_next", 2),
    KeyHint("F1", "help", "app.help", 0),
)
"""The form's fields take every printable key, so it names only other keys."""
HINTS: Mapping[str, tuple[KeyHint, ...]] = {
    "recipes": RECIPES,
    "form": FORM,
    "jobs": (
        KeyHint("Up/Down", "job", "", 3),
        KeyHint("Enter", "its log", "screen.pane('log')", 2),
        _STOP._replace(drop=1),
        _COMPARE,
        *_START,
        _PANES,
    ),
    "log": (
        KeyHint("Up/Down PgUp/PgDn", "scroll", "", 5),
        KeyHint("Home End", "its beginning, its end", "", 4),
        KeyHint("/", "search", "", 1),
        KeyHint("r", "one rank", "", 2),
        _STOP,
        _PANES,
    ),
}
"""The name of the pane with the focus -> its keys."""
