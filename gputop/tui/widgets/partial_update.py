"""A partial update of Textual's screen that is cropped on both sides and encodes each style as a difference.

Textual 8 crops a partial update on the right but not on the left, and sets and resets the whole style for each piece of text.
``PartialUpdate`` sends only the changed cells, and only how each style differs from that of the cell before.

This module depends only on Textual and Rich, so that Textual could adopt it unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from rich.color import Color, ColorSystem
from rich.console import COLOR_SYSTEMS, Console
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate
from textual.strip import Strip

Cells = Sequence[tuple[str, Style]]
_PLAIN = Style.null()
_ATTRIBUTES = (
    "bold",
    "dim",
    "italic",
    "underline",
    "blink",
    "blink2",
    "reverse",
    "conceal",
    "strike",
    "underline2",
    "frame",
    "encircle",
    "overline",
)


class Piece(NamedTuple):
    """Adjacent cells to send, and the screen position of the first one."""

    x: int
    y: int
    cells: Cells


class PartialUpdate(CompositorUpdate):
    """An update of several pieces of the screen."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        self.pieces = pieces

    def render_segments(self, console: Console) -> str:
        """Return the escape sequences and text to write to the terminal."""
        system = COLOR_SYSTEMS.get(console.color_system or "", ColorSystem.TRUECOLOR)
        written: list[str] = []
        now = _PLAIN
        for x, y, cells in self.pieces:
            written.append(f"\x1b[{y + 1};{x + 1}H")
            for text, wanted in cells:
                if wanted.link:
                    written += (_change(now, _PLAIN, system), Strip.render_style(wanted, text, system))
                    now = _PLAIN
                    continue
                if wanted is not now:
                    written.append(_change(now, wanted, system))
                    now = wanted
                written.append(text)
        written.append(_change(now, _PLAIN, system))
        return "".join(written)


def cut_pieces(update: ChopsUpdate) -> list[Piece]:
    """Return the changed cells of Textual's own partial update, cropped on both sides."""
    pieces = []
    for y, x1, x2 in update.spans:
        for end, (x, strip) in zip(update.chop_ends[y], update.chops[y].items(), strict=False):
            if strip is None or x >= x2 or end <= x1:
                continue
            start, stop = max(x, x1), min(end, x2)
            shown = strip if (start, stop) == (x, end) else strip.crop(start - x, stop - x)
            pieces.append(Piece(start, y, [(text, style or _PLAIN) for text, style, control in shown if not control]))
    return pieces


@lru_cache(maxsize=4096)
def _change(now: Style, wanted: Style, system: ColorSystem) -> str:
    """Return the sequence that changes one style into another; "" if they look the same."""
    if _attributes(now) != _attributes(wanted):
        # A terminal cannot switch off only bold (SGR 22 ends dim as well), so start from the plain style.
        codes = Strip.render_ansi(wanted, system)
        return f"\x1b[0;{codes}m" if codes else "\x1b[0m"
    codes = ";".join(
        (*_color_change(now.color, wanted.color, system, True), *_color_change(now.bgcolor, wanted.bgcolor, system, False))
    )
    return f"\x1b[{codes}m" if codes else ""


def _attributes(style: Style) -> tuple[bool, ...]:
    return tuple(bool(getattr(style, name)) for name in _ATTRIBUTES)


def _color_change(now: Color | None, wanted: Color | None, system: ColorSystem, foreground: bool) -> tuple[str, ...]:
    default = ("39",) if foreground else ("49",)
    before, after = (
        default if color is None else tuple(color.downgrade(system).get_ansi_codes(foreground)) for color in (now, wanted)
    )
    return () if before == after else after
