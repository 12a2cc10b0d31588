"""Text written for a terminal: made safe and plain, and laid out as a table. Only this module knows escape sequences.

Three variants, in order of how much they remove:

* ``strip_escapes``: for parsers. Removes escape sequences and C1 controls; keeps everything else, including line ends.
* ``strip_controls``: for text that is shown or quoted. Also removes other control characters, except newline and tab, and
  the marks that change the direction of text, which can make one line look like another. ``keep_colors`` keeps colors.
* ``printable``: for names and commands in one row of a table. Replaces each unprintable character with a space.

Everything that a command prints on a terminal goes through ``strip_controls`` (``gputop.cli.output.terminal``), which cannot
tell a line break in a name from one between lines: make a name ``printable`` before you put it into a line.

Screens replace rather than remove, so that widths stay the same: see ``gputop.tui.drawing.line.clean``.

Imports only the standard library; training processes load this module.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

# ECMA-48, in its 7-bit form. A sequence never spans lines: stripping line by line equals stripping the whole text, and an
# unterminated string cannot hide the lines below it.
_ESCAPE = re.compile(
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]?"  # CSI: colors, cursor movement
    r"|\][^\x07\x18\x1a\x1b\x9c\r\n]*(?:\x1b\\|[\x07\x18\x1a\x9c])?"  # OSC: titles, links; xterm also ends it with BEL
    r"|[PX^_][^\x18\x1a\x1b\x9c\r\n]*(?:\x1b\\|[\x18\x1a\x9c])?"  # DCS, SOS, PM, APC: images, tmux passthrough
    r"|[ -/]*[0-~]?"  # two-byte escapes, character sets, and an ESC that starts nothing
    r")"
)
# C1 controls are removed one by one and never start a sequence: most terminals ignore them in UTF-8, and doubly encoded
# text is full of them ("”" becomes U+00E2 U+0080 U+009D, and U+009D would be an OSC).
_C1 = re.compile(r"[\x80-\x9f]")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
# Marks, embeddings, overrides and isolates of the bidirectional algorithm; and the separators that some terminals break at.
_DIRECTIONS = re.compile("[\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_COLORS = re.compile(r"(\x1b\[[0-9;]*m)")


def strip_escapes(text: str) -> str:
    """Return ``text`` without escape sequences and C1 controls; other characters stay, including newlines and tabs."""
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    return text if text.isascii() else _C1.sub("", text)


def strip_controls(text: str) -> str:
    """Return ``text`` without escapes, control characters and marks of direction; newlines and tabs stay."""
    text = _CONTROLS.sub("", strip_escapes(text))
    return text if text.isascii() else _DIRECTIONS.sub("", text)


def keep_colors(text: str) -> str:
    """Return what ``strip_controls`` does, but keep the sequences that set colors: for text that gputop itself has colored."""
    return "".join(part if _COLORS.fullmatch(part) else strip_controls(part) for part in _COLORS.split(text))


def printable(text: str) -> str:
    """Return ``text`` as one line of the same length, with a space in place of each unprintable character."""
    return text if text.isprintable() else "".join(character if character.isprintable() else " " for character in text)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the header and one line per row; each row has as many cells as the header. Cells are made printable.

    Raises:
        ValueError: a row has more or fewer cells.
    """
    return columns([head, *rows])


def columns(rows: Sequence[Sequence[str]], right: Collection[int] = ()) -> list[str]:
    """Return one line per row, without a header; the columns with an index in ``right`` are aligned to the right.

    Raises:
        ValueError: the rows differ in their number of cells.
    """
    rows = [[printable(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    pads = [str.rjust if index in right else str.ljust for index in range(len(widths))]
    return ["  ".join(pad(cell, width) for pad, cell, width in zip(pads, row, widths, strict=True)).rstrip() for row in rows]
