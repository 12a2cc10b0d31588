"""A partial update of Textual's screen that is cropped on both sides and encodes each style as a difference.

Textual 8 crops a partial update on the right but not on the left, and sets and resets the whole style for each piece of text.
``PartialUpdate`` sends only the changed cells, those of one style together, and only how a style differs from the one before.

This module depends only on Textual and Rich, so that Textual could adopt it unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from rich.cells import cell_len
from rich.color import Color, ColorSystem
from rich.console import COLOR_SYSTEMS, Console
from rich.style import Style
from textual._compositor import ChopsUpdate, CompositorUpdate
from textual.strip import Strip

Cells = Sequence[tuple[str, Style]]
_PLAIN = Style.null()
COMPARED_STYLES = 16
"""With more styles than this, the cheapest next one is not searched for: that takes the square of their number."""
ERASED_CELLS = 12
"""This many blanks are erased rather than sent: that takes 5 bytes, and as many to skip them."""
_BLANKS = re.compile(f"( {{{ERASED_CELLS},}})")
_LINES = ("underline", "underline2", "strike", "overline", "frame", "encircle")
"""Styles that are visible on a blank, too."""
_ONE_ROW = {0: "", 1: "\x1bD", -1: "\x1bM"}
"""IND and RI of the VT100: one row down or up, a byte shorter than CSI B and A. Within the screen, they do the same."""
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


class _Run(NamedTuple):
    """What to write at a place, and the column in which the cursor is then."""

    x: int
    y: int
    text: str
    end: int


def erases_in_color(environment: Mapping[str, str]) -> bool:
    """Return whether the terminal fills cells that ECH erases with the background's color.

    Nearly all do, as xterm. GNU screen uses the terminal's own background, and Emacs' ``term`` does not know ECH.
    """
    if "STY" in environment:
        return False
    return "TMUX" in environment or not environment.get("TERM", "").startswith(("screen", "eterm"))


class PartialUpdate(CompositorUpdate):
    """An update of several pieces of the screen."""

    def __init__(self, pieces: Sequence[Piece], columns: int = 0, erases: bool = False) -> None:
        """Keep what to render.

        Args:
            pieces: the cells.
            columns: the width of the screen, if known: after the last one, only the terminal knows where the cursor is.
            erases: whether the terminal ``erases_in_color``.
        """
        self.pieces = pieces
        self.columns = columns
        self.erases = erases

    def render_segments(self, console: Console) -> str:
        """Return the escape sequences and text to write to a terminal whose style is plain, and stays so."""
        written, now = self.render(console, _PLAIN)
        return written + _change(now, _PLAIN, _system_of(console))

    def render(self, console: Console, pen: Style | None) -> tuple[str, Style]:
        """Return what to write to a terminal whose style is ``pen``, None if that is not known; and its style after that.

        All cells of one style are written together: moving the cursor takes a third of the bytes of a change of style.
        """
        system = _system_of(console)
        written: list[str] = []
        now = pen
        place: tuple[int, int] | None = None
        sure = False
        found = _by_style(self.pieces, self.erases)
        while found:
            wanted = _nearest(now, found, system)
            runs = found.pop(wanted)
            if not wanted.link:
                written.append(_change(now, wanted, system))
                now = wanted
            elif now is not _PLAIN:
                written.append(_change(now, _PLAIN, system))
                now = _PLAIN
            moves, certain = self._moves(place, sure, runs)
            if len(runs) > 2:
                columns = _column_by_column(runs)
                below, known = self._moves(place, sure, columns)
                if sum(map(len, below)) < sum(map(len, moves)):
                    runs, moves, certain = columns, below, known
            for move, run in zip(moves, runs, strict=True):
                written.append(move)
                written.append(Strip.render_style(wanted, run.text, system) if wanted.link else run.text)
                place = (run.end, run.y)
            sure = certain
        return "".join(written), _PLAIN if now is None else now

    def _moves(self, place: tuple[int, int] | None, sure: bool, runs: Sequence[_Run]) -> tuple[list[str], bool]:
        """Return the sequence that moves the cursor before each run, and whether its place is certain after the last.

        At first it is at ``place``, None if that is not known; ``sure``: certainly there.
        """
        moves = []
        for x, y, text, end in runs:
            moves.append(_move(place, (x, y), sure=sure))
            place = (end, y)
            # Terminals disagree about the width of some characters: after any but these, a row is counted from its start.
            sure = (sure or moves[-1].endswith("H")) and text.isascii() and place[0] < self.columns
        return moves, sure


def _system_of(console: Console) -> ColorSystem:
    return COLOR_SYSTEMS.get(console.color_system or "", ColorSystem.TRUECOLOR)


def _nearest(now: Style | None, wanted: Collection[Style], system: ColorSystem) -> Style:
    """Return the style that takes the fewest bytes to change to."""
    if len(wanted) > COMPARED_STYLES:
        return next(iter(wanted))
    return min(wanted, key=lambda style: len(_change(now, style, system)))


@lru_cache(maxsize=1024)
def shows_in_blank(style: Style) -> bool:
    """Return whether more than the background of a style is visible in a blank."""
    return bool(style.reverse or style.link or any(getattr(style, line) for line in _LINES))


def _by_style(pieces: Sequence[Piece], erases: bool) -> dict[Style, list[_Run]]:
    """Return the runs of cells by their style in order of appearance; long blanks as runs of their own if it ``erases``."""
    found: dict[Style, list[_Run]] = {}
    for x, y, cells in pieces:
        for text, style in cells:
            if not text:
                continue
            runs = found.setdefault(style, [])
            for number, part in enumerate(_BLANKS.split(text) if erases and not shows_in_blank(style) else (text,)):
                end = x + cell_len(part)
                if number % 2:
                    runs.append(_Run(x, y, f"\x1b[{end - x}X", x))
                elif part:
                    runs.append(_Run(x, y, part, end))
                x = end
    return found


def _column_by_column(runs: Sequence[_Run]) -> list[_Run]:
    """Return the runs by their last column, alternately downward and upward.

    Numbers that change stand below one another, and end in one column.
    """
    columns: dict[int, list[_Run]] = {}
    for run in runs:
        columns.setdefault(run.end, []).append(run)
    ordered: list[_Run] = []
    for number, end in enumerate(sorted(columns)):
        ordered += sorted(columns[end], key=lambda run: run.y, reverse=bool(number % 2))
    return ordered


def _move(place: tuple[int, int] | None, to: tuple[int, int], *, sure: bool) -> str:
    """Return a short sequence that moves the cursor; it stays where it is after the cells before.

    ``sure``: whether it is certainly at ``place``, so that it may move from there to another row.
    """
    x, y = to
    if place == to:
        return ""
    if place is not None and place[1] == y and place[0] < x:
        return _by(x - place[0], "C")
    absolute = f"\x1b[{y + 1};{x + 1}H"
    if place is None or not sure:
        return absolute
    back, down = place[0] - x, y - place[1]
    across = _by(-back, "C") if back < 0 else "\b" * back if back <= 3 else _by(back, "D")
    along = _ONE_ROW[down] if down in _ONE_ROW else _by(abs(down), "B" if down > 0 else "A")
    relative = along + across
    return relative if len(relative) < len(absolute) else absolute


def _by(cells: int, direction: str) -> str:
    return f"\x1b[{cells}{direction}" if cells > 1 else f"\x1b[{direction}"


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
def _change(now: Style | None, wanted: Style, system: ColorSystem) -> str:
    """Return the sequence that changes one style (None: unknown) into another; "" if they look the same."""
    codes = Strip.render_ansi(wanted, system)
    whole = f"\x1b[0;{codes}m" if codes else "\x1b[0m"
    if now is None:
        return whole
    before, after = _attributes(now), _attributes(wanted)
    weight: tuple[str, ...] = ()
    if before != after:
        if before[2:] != after[2:] or now.dim or wanted.dim:
            return whole  # a terminal cannot switch off bold alone and keep dim: SGR 22 ends both
        weight = ("1",) if wanted.bold else ("22",)
    colors = (*_color_change(now.color, wanted.color, system, True), *_color_change(now.bgcolor, wanted.bgcolor, system, False))
    changes = ";".join((*weight, *colors))
    return min(whole, f"\x1b[{changes}m", key=len) if changes else ""


def _attributes(style: Style) -> tuple[bool, ...]:
    return tuple(bool(getattr(style, name)) for name in _ATTRIBUTES)


def _color_change(now: Color | None, wanted: Color | None, system: ColorSystem, foreground: bool) -> tuple[str, ...]:
    default = ("39",) if foreground else ("49",)
    before, after = (
        default if color is None else tuple(color.downgrade(system).get_ansi_codes(foreground)) for color in (now, wanted)
    )
    return () if before == after else after
