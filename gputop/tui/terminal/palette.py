"""Maps style names (``drawing/line.py``) to terminal styles, and defines the matching Textual themes.

Four looks: dark, light, ansi (the terminal's own 16 colors and background) and mono (only bold, dim and reverse). The look
follows the app's theme, so one switch changes everything. Color means state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from rich.style import Style
from textual.theme import BUILTIN_THEMES, Theme

DARK_BACKGROUND = "#101418"
LIGHT_BACKGROUND = "#fcfcfa"

_DARK = {
    "text": "#d3d7dc",
    "dim": "#98a1ab",
    "title": "bold #e8eaed",
    "key": "bold #79b8ff",
    "value": "bold #f3f5f7",
    "ok": "#6bd17f",
    "warn": "#f0b64a",
    "bad": "bold #ff7b72",
    "accent": "bold #79b8ff",
    "bar": "#4fb6c4",
    "track": "#3d4650",
    "work0": "#3b78b8",
    "work1": "#3f9fcb",
    "work2": "#52b9c4",
    "work3": "#7fdcc0",
    "owner": "#c4a2ff",
    "memory": "#4fb6c4",
    "other": "#8a7f6d",
    "band": "#20303a on #20303a",
    "chip": "bold reverse",
    "cursor": "on #1a3550",
    "rank0": "#56b4e9",
    "rank1": "#e69f00",
    "rank2": "#2fc6a2",
    "rank3": "#efe15a",
    "rank4": "#d98bc6",
    "rank5": "#7f9cf5",
    "rank6": "#ff8a5c",
    "rank7": "#b5bdc7",
}
_LIGHT = {
    "text": "#24292f",
    "dim": "#586069",
    "title": "bold #14181d",
    "key": "bold #0550ae",
    "value": "bold #000000",
    "ok": "#1a7332",
    "warn": "#8a5a00",
    "bad": "bold #c01c28",
    "accent": "bold #0550ae",
    "bar": "#17707a",
    "track": "#cfd5db",
    "work0": "#2f6aa8",
    "work1": "#1f7fae",
    "work2": "#17707a",
    "work3": "#12805c",
    "owner": "#7038c0",
    "memory": "#17707a",
    "other": "#8a7f6d",
    "band": "#dfe8ec on #dfe8ec",
    "chip": "bold reverse",
    "cursor": "on #dcebfa",
    "rank0": "#0067a5",
    "rank1": "#a34f00",
    "rank2": "#00694f",
    "rank3": "#766000",
    "rank4": "#943d80",
    "rank5": "#2f4fc9",
    "rank6": "#b43a08",
    "rank7": "#505963",
}
_ANSI = {
    "text": "none",
    "dim": "dim",
    "title": "bold",
    "key": "bold cyan",
    "value": "bold",
    "ok": "green",
    "warn": "yellow",
    "bad": "bold red",
    "accent": "bold cyan",
    "bar": "cyan",
    "track": "dim",
    "work0": "blue",
    "work1": "blue",
    "work2": "cyan",
    "work3": "green",
    "owner": "magenta",
    "memory": "cyan",
    "other": "none",
    "band": "bright_black",
    "chip": "bold reverse",
    "cursor": "reverse",
    "rank0": "cyan",
    "rank1": "yellow",
    "rank2": "green",
    "rank3": "magenta",
    "rank4": "blue",
    "rank5": "bright_cyan",
    "rank6": "bright_magenta",
    "rank7": "none",
}
_MONO = {
    "text": "none",
    "dim": "dim",
    "title": "bold",
    "key": "bold",
    "value": "bold",
    "ok": "none",
    "warn": "bold",
    "bad": "reverse",
    "accent": "bold",
    "bar": "none",
    "track": "dim",
    "work0": "none",
    "work1": "none",
    "work2": "none",
    "work3": "none",
    "owner": "none",
    "memory": "none",
    "other": "none",
    "band": "dim",
    "chip": "bold reverse",
    "cursor": "reverse",
    **{f"rank{rank}": "none" for rank in range(8)},
}


def _parsed(styles: Mapping[str, str]) -> Mapping[str, Style]:
    return MappingProxyType({name: Style.parse(text) for name, text in styles.items()})


PALETTES = {"dark": _parsed(_DARK), "light": _parsed(_LIGHT), "ansi": _parsed(_ANSI), "mono": _parsed(_MONO)}

_ANSI_BASE = BUILTIN_THEMES["ansi-dark"]

THEMES = (
    Theme(
        name="gputop-dark",
        primary="#79b8ff",
        secondary="#4fb6c4",
        warning="#f0b64a",
        error="#ff7b72",
        success="#6bd17f",
        accent="#79b8ff",
        foreground="#d3d7dc",
        background=DARK_BACKGROUND,
        surface="#171d23",
        panel="#1f262e",
    ),
    Theme(
        name="gputop-light",
        primary="#0550ae",
        secondary="#17707a",
        warning="#8a5a00",
        error="#c01c28",
        success="#1a7332",
        accent="#0550ae",
        foreground="#24292f",
        background=LIGHT_BACKGROUND,
        surface="#f1f3f5",
        panel="#e6e9ec",
        dark=False,
    ),
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
    """Return the name of the Textual theme for a setting: "dark", "light" or "ansi"; "auto" means "dark"."""
    if not color:
        return "gputop-mono"
    return f"gputop-{theme}" if theme in ("dark", "light", "ansi") else "gputop-dark"


def palette(theme: str, color: bool = True) -> Mapping[str, Style]:
    """Return style name -> terminal style, without backgrounds except the cursor's.

    Args:
        theme: "dark", "light" or "ansi", or the name of one of gputop's Textual themes; anything else means "dark".
        color: False gives only bold, dim and reverse.
    """
    if not color:
        return PALETTES["mono"]
    return PALETTES.get(theme.removeprefix("gputop-"), PALETTES["dark"])
