"""Replaces ``unicodedata`` for Textual's key bindings: holds the names of the characters on a keyboard, and loads the real
module for any other.

The real module takes a megabyte, which nothing else on the screen needs. Imports nothing.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

CHARACTERS = {
    "SPACE": " ", "EXCLAMATION MARK": "!", "QUOTATION MARK": '"', "NUMBER SIGN": "#", "DOLLAR SIGN": "$", "PERCENT SIGN": "%",
    "AMPERSAND": "&", "APOSTROPHE": "'", "LEFT PARENTHESIS": "(", "RIGHT PARENTHESIS": ")", "ASTERISK": "*", "PLUS SIGN": "+",
    "COMMA": ",", "HYPHEN-MINUS": "-", "FULL STOP": ".", "SOLIDUS": "/", "COLON": ":", "SEMICOLON": ";", "LESS-THAN SIGN": "<",
    "EQUALS SIGN": "=", "GREATER-THAN SIGN": ">", "QUESTION MARK": "?", "COMMERCIAL AT": "@", "LEFT SQUARE BRACKET": "[",
    "REVERSE SOLIDUS": "\\", "RIGHT SQUARE BRACKET": "]", "CIRCUMFLEX ACCENT": "^", "LOW LINE": "_", "GRAVE ACCENT": "`",
    "LEFT CURLY BRACKET": "{", "VERTICAL LINE": "|", "RIGHT CURLY BRACKET": "}", "TILDE": "~",
    "BACKSPACE": "\b", "TAB": "\t", "ESCAPE": "\x1b", "DELETE": "\x7f",
}  # fmt: skip
"""Unicode's names, and its aliases for control characters."""
OTHER_KEYS = {
    "AT", "BACKSLASH", "DOWN", "END", "ENTER", "HOME", "INSERT", "LEFT", "MINUS", "PAGEDOWN", "PAGEUP", "PLUS", "RETURN",
    "RIGHT", "SLASH", "UNDERSCORE", "UP", *(f"F{number}" for number in range(1, 25)),
}  # fmt: skip
"""Names of keys that name no character."""
_NAMES = {character: name for name, character in CHARACTERS.items() if character.isprintable()}


class KeyNames(type(sys)):  # type: ignore[misc] # the class of modules, without an import
    """The replacement. It offers all of ``unicodedata``, which is loaded for whatever these tables do not hold."""

    def lookup(self, name: str) -> str:
        """Return the character that has this name.

        Raises:
            KeyError: no character has it.
        """
        if name in OTHER_KEYS:
            raise KeyError(name)
        return CHARACTERS[name] if name in CHARACTERS else str(_real().lookup(name))

    def name(self, character: str) -> str:
        """Return the name of a character.

        Raises:
            ValueError: it has none.
        """
        return _NAMES[character] if character in _NAMES else str(_real().name(character))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_real(), name)


def _real() -> Any:
    import unicodedata

    return unicodedata
