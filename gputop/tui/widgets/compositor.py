"""Sends the changed cells of a line alone, and of their styles what differs from the cell sent before.

Textual 8 cuts a partial update on the right but not on the left, and sets and resets the whole style for each piece of
text. On the dashboard that is more than nine tenths of what goes to the terminal each second (measured, true color:
15.4 KB a tick before, 1.9 KB after). This replaces one private part of a screen (``Screen._compositor``), so it steps
aside where that part is not what it knows.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from rich.color import Color, ColorSystem
from rich.console import Console
from rich.control import Control
from rich.style import Style
from textual._compositor import ChopsUpdate, Compositor
from textual.screen import Screen
from textual.strip import Strip

_PLAIN = Style.null()


class ChangedCells(ChopsUpdate):
    """A partial update, cut on both sides."""

    def render_segments(self, console: Console) -> str:
        """Return what to write to the terminal."""
        system = console._color_system or ColorSystem.TRUECOLOR
        written: list[str] = []
        now = _PLAIN
        for y, x1, x2 in self.spans:
            for end, (x, strip) in zip(self.chop_ends[y], self.chops[y].items(), strict=False):
                if strip is None or x >= x2 or end <= x1:
                    continue
                start, stop = max(x, x1), min(end, x2)
                shown = strip if (start, stop) == (x, end) else strip.crop(start - x, stop - x)
                written.append(Control.move_to(start, y).segment.text)
                for text, style, control in shown:
                    if control:
                        continue
                    wanted = style or _PLAIN
                    if wanted.link:
                        written += (_change(now, _PLAIN, system), Strip.render_style(wanted, text, system))
                        now = _PLAIN
                        continue
                    written += (_change(now, wanted, system), text)
                    now = wanted
        written.append(_change(now, _PLAIN, system))
        return "".join(written)


@lru_cache(maxsize=4096)
def _change(now: Style, wanted: Style, system: ColorSystem) -> str:
    """Return the sequence that turns one style into another; nothing when they look the same."""
    attributes = wanted._attributes & wanted._set_attributes
    if attributes != now._attributes & now._set_attributes:
        codes = Strip.render_ansi(wanted, system)
        return f"\x1b[0;{codes}m" if codes else "\x1b[0m"
    codes = ";".join(
        (*_color_change(now.color, wanted.color, system, True), *_color_change(now.bgcolor, wanted.bgcolor, system, False))
    )
    return f"\x1b[{codes}m" if codes else ""


def _color_change(now: Color | None, wanted: Color | None, system: ColorSystem, foreground: bool) -> tuple[str, ...]:
    default = ("39",) if foreground else ("49",)
    before, after = (
        default if color is None else tuple(color.downgrade(system).get_ansi_codes(foreground)) for color in (now, wanted)
    )
    return () if before == after else after


class SparingCompositor(Compositor):
    """Textual's compositor with ``ChangedCells`` for partial updates."""

    def render_partial_update(self) -> ChopsUpdate | None:
        """Return the update of the dirty regions."""
        update = super().render_partial_update()
        if type(update) is not ChopsUpdate:
            return update
        return ChangedCells(update.chops, update.spans, update.chop_ends)


def send_changed_cells_only(screen: Screen[Any]) -> None:
    """Give a screen that is not mounted yet the sparing compositor, unless Textual has changed underneath."""
    if type(getattr(screen, "_compositor", None)) is Compositor:
        screen._compositor = SparingCompositor()


def crops_left(screen: Screen[Any]) -> bool:
    """True when updates of this screen begin where the change begins."""
    return isinstance(getattr(screen, "_compositor", None), SparingCompositor)
