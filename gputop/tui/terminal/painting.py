"""Maps style names to terminal styles for a widget in its theme. Cached, because every piece of text needs a lookup."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter
from textual.widget import Widget

from gputop.tui.terminal.palette import PALETTES

CellPainter = Callable[[int, int, int], Sequence[tuple[str, Style]]]
"""Returns the cells [start, end) of a widget's row ``y`` as sent to the terminal; called as ``paint(y, start, end)``."""


class Look(NamedTuple):
    """Everything that the styles of a widget depend on."""

    palette: str
    background: Style
    under: Color
    filters: tuple[LineFilter, ...] = ()


def look_of(widget: Widget, filtered: bool = False) -> Look:
    """Return the current appearance of a widget; ``filtered`` includes Textual's filters, as sent to the terminal."""
    theme = widget.app.current_theme
    name = theme.name.removeprefix("gputop-")
    if name not in PALETTES:
        name = "ansi" if theme.ansi else ("dark" if theme.dark else "light")
    under = widget.background_colors[1]
    background = Style.null() if theme.ansi else _on(under)
    return Look(name, background, under, tuple(widget.get_line_filters()) if filtered else ())


@lru_cache(maxsize=32)
def _on(color: Color) -> Style:
    return Style(bgcolor=color.rich_color)


@lru_cache(maxsize=32)
def styles_of(look: Look) -> Mapping[str, Style]:
    """Return style name -> terminal style; a name may combine several, separated by spaces."""
    return _Styles(look)


class _Styles(dict[str, Style]):
    def __init__(self, look: Look) -> None:
        super().__init__()
        self._look = look

    def __missing__(self, name: str) -> Style:
        style = self._look.background
        parts = name.split()
        for part in parts:
            found = PALETTES[self._look.palette][part]
            # Of a band, its curve takes only the background: without colors, the curve would be as dim as the band.
            style += found.background_style if part == "band" and len(parts) > 1 else found
        for line_filter in self._look.filters:
            style = line_filter.apply([Segment("x", style)], self._look.under)[0].style or Style.null()
        self[name] = style
        return style
