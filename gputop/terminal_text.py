"""Text that was written for a terminal, made safe and plain. The one place that knows escape sequences.

Three variants, from the least to the most that is removed:

* ``strip_escapes``: for parsers. Removes escape sequences and C1 controls; keeps all else, line ends included.
* ``strip_controls``: for text that is shown or quoted. Also removes the other controls, except newline and tab.
* ``printable``: for names and commands in one row of a table. Replaces what cannot be printed with a space.

The screens replace rather than remove, so that widths stay: see ``gputop.tui.drawing.line.clean``.

Imports the standard library only; training processes load this module.
"""

from __future__ import annotations

import re

# ECMA-48, in its 7-bit form. A sequence never spans lines: stripping each line gives what stripping the whole text gives,
# and a string that is never closed cannot hide the lines below it.
_ESCAPE = re.compile(
    r"\x1b(?:"
    r"\[[0-?]*[ -/]*[@-~]?"  # CSI: colours, cursor movement
    r"|\][^\x07\x18\x1a\x1b\x9c\r\n]*(?:\x1b\\|[\x07\x18\x1a\x9c])?"  # OSC: titles, links; xterm also ends it with BEL
    r"|[PX^_][^\x18\x1a\x1b\x9c\r\n]*(?:\x1b\\|[\x18\x1a\x9c])?"  # DCS, SOS, PM, APC: images, tmux passthrough
    r"|[ -/]*[0-~]?"  # two-byte escapes, character sets, and an ESC that begins nothing
    r")"
)
# C1 controls are removed one by one and never read as the beginning of a sequence: most terminals ignore them in UTF-8,
# and text that was encoded twice is full of them ("”" becomes U+00E2 U+0080 U+009D, and U+009D would be an OSC).
_C1 = re.compile(r"[\x80-\x9f]")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def strip_escapes(text: str) -> str:
    """Return ``text`` without escape sequences and C1 controls; other characters stay, newlines and tabs among them."""
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    return text if text.isascii() else _C1.sub("", text)


def strip_controls(text: str) -> str:
    """Return ``text`` without escape sequences and control characters; newlines and tabs stay."""
    return _CONTROLS.sub("", strip_escapes(text))


def printable(text: str) -> str:
    """Return ``text`` in one line of the same length: a space stands for each character that cannot be printed."""
    return text if text.isprintable() else "".join(character if character.isprintable() else " " for character in text)
