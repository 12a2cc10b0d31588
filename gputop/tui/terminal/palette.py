"""Maps style names (``drawing/line.py``) to terminal styles, and defines the matching Textual themes.

One table of roles and their styles in each look: dark, light, colorblind, ansi (the terminal's own 16 colors and background),
and mono (only bold, dim and reverse). The look follows the app's theme, so one switch changes everything. Color means state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from rich.style import Style
from textual.theme import BUILTIN_THEMES, Theme

DARK_BACKGROUND = "#101418"
LIGHT_BACKGROUND = "#fcfcfa"

LOOKS = ("dark", "light", "colorblind", "ansi", "mono")
_ROLES: Mapping[str, tuple[str, str, str, str, str]] = {
    # role: dark, light, colorblind, ansi, mono
    "text":    ("#d3d7dc", "#24292f", "#d3d7dc", "none", "none"),
    "dim":     ("#98a1ab", "#586069", "#98a1ab", "dim", "dim"),
    "title":   ("bold #e8eaed", "bold #14181d", "bold #e8eaed", "bold", "bold"),
    "key":     ("bold #79b8ff", "bold #0550ae", "bold #8cc4ff", "bold cyan", "bold"),
    "value":   ("bold #f3f5f7", "bold #000000", "bold #f3f5f7", "bold", "bold"),
    "ok":      ("#6bd17f", "#1a7332", "#56b4e9", "green", "none"),
    "warn":    ("#f0b64a", "#8a5a00", "#e6ac3c", "yellow", "bold"),
    "bad":     ("bold #ff7b72", "bold #c01c28", "bold #ff9248", "bold red", "reverse"),
    "accent":  ("bold #79b8ff", "bold #0550ae", "bold #8cc4ff", "bold cyan", "bold"),
    "bar":     ("#4fb6c4", "#17707a", "#56b4e9", "cyan", "none"),
    "track":   ("#3d4650", "#cfd5db", "#3d4650", "dim", "dim"),
    "work0":   ("#3b78b8", "#2f6aa8", "#2f62a3", "blue", "none"),
    "work1":   ("#3f9fcb", "#1f7fae", "#3f86c6", "blue", "none"),
    "work2":   ("#52b9c4", "#17707a", "#6aaee6", "cyan", "none"),
    "work3":   ("#7fdcc0", "#12805c", "#b5dcff", "green", "none"),
    "owner":   ("#c4a2ff", "#7038c0", "#d9a6c8", "magenta", "none"),
    "memory":  ("#4fb6c4", "#17707a", "#4fa3d8", "cyan", "none"),
    "other":   ("#8a7f6d", "#8a7f6d", "#9a9384", "none", "none"),
    "band":    ("#20303a on #20303a", "#dfe8ec on #dfe8ec", "#20303a on #20303a", "bright_black", "dim"),
    "chip":    ("bold reverse", "bold reverse", "bold reverse", "bold reverse", "bold reverse"),
    "cursor":  ("on #1a3550", "on #dcebfa", "on #1a3550", "reverse", "reverse"),
    "rank0":   ("#56b4e9", "#0067a5", "#56b4e9", "cyan", "none"),
    "rank1":   ("#e69f00", "#a34f00", "#e69f00", "yellow", "none"),
    "rank2":   ("#2fc6a2", "#00694f", "#2fc6a2", "green", "none"),
    "rank3":   ("#efe15a", "#766000", "#efe15a", "magenta", "none"),
    "rank4":   ("#d98bc6", "#943d80", "#d98bc6", "blue", "none"),
    "rank5":   ("#7f9cf5", "#2f4fc9", "#7f9cf5", "bright_cyan", "none"),
    "rank6":   ("#ff8a5c", "#b43a08", "#ff8a5c", "bright_magenta", "none"),
    "rank7":   ("#b5bdc7", "#505963", "#b5bdc7", "none", "none"),
}  # fmt: skip
"""Role -> its style in each of ``LOOKS``. "colorblind" distinguishes good from bad by blue and orange, never by red and green.

A word, a mark or a position repeats what a color says: "mono" has no colors.
"""
PALETTES: Mapping[str, Mapping[str, Style]] = {
    look: MappingProxyType({role: Style.parse(styles[place]) for role, styles in _ROLES.items()})
    for place, look in enumerate(LOOKS)
}

_ANSI_BASE = BUILTIN_THEMES["ansi-dark"]


def _theme(look: str, background: str, surface: str, panel: str) -> Theme:
    """Return the Textual theme of a look with colors of its own."""

    def color(role: str) -> str:
        found = PALETTES[look][role].color
        return found.name if found is not None else background

    return Theme(
        name=f"gputop-{look}",
        primary=color("accent"),
        secondary=color("bar"),
        warning=color("warn"),
        error=color("bad"),
        success=color("ok"),
        accent=color("accent"),
        foreground=color("text"),
        background=background,
        surface=surface,
        panel=panel,
        dark=look != "light",
    )


THEMES = (
    _theme("dark", DARK_BACKGROUND, "#171d23", "#1f262e"),
    _theme("light", LIGHT_BACKGROUND, "#f1f3f5", "#e6e9ec"),
    _theme("colorblind", DARK_BACKGROUND, "#171d23", "#1f262e"),
    replace(_ANSI_BASE, name="gputop-ansi", primary="ansi_cyan", secondary="ansi_cyan", accent="ansi_cyan"),
    replace(
        _ANSI_BASE,
        name="gputop-mono",
        primary="ansi_default",
        secondary="ansi_default",
        accent="ansi_default",
        warning="ansi_default",
        error="ansi_default",
        success="ansi_default",
    ),
)
"""Register these with ``App.register_theme`` and choose one with ``theme_name``."""


def theme_name(theme: str, color: bool = True) -> str:
    """Return the name of the Textual theme for a setting: one of ``LOOKS``; "auto" means "dark"."""
    if not color:
        return "gputop-mono"
    return f"gputop-{theme}" if theme in LOOKS else "gputop-dark"


def palette(theme: str, color: bool = True) -> Mapping[str, Style]:
    """Return style name -> terminal style, without backgrounds except the cursor's.

    Args:
        theme: One of ``LOOKS``, or the name of one of gputop's Textual themes; anything else means "dark".
        color: False gives only bold, dim and reverse.
    """
    if not color:
        return PALETTES["mono"]
    return PALETTES.get(theme.removeprefix("gputop-"), PALETTES["dark"])
