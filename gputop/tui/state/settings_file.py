"""The configuration file: the user's choices on the settings screen, kept between starts as TOML.

A file that cannot be read is reported and ignored, and never overwritten without the user's consent. Saving changes only the
lines of gputop's own keys; comments and unknown keys survive. Imports no Textual.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gputop import places
from gputop.errors import GputopError
from gputop.tui.state.settings import THEMES, Settings
from gputop.units import INTERVAL_MAX_S, INTERVAL_MIN_S

if TYPE_CHECKING:
    from gputop.snapshot import Problem

SAVED = ("interval_s", "theme", "ascii", "density", "log_axis", "smoothing", "per_rank")
"""The fields that the settings screen changes; the others are read from the file but never written."""

DENSITIES = ("auto", "full", "compact")
MAX_SMOOTHING = 0.99
"""At 1, a curve would never leave its first value."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings that could be read, and what was wrong with the file."""

    settings: Settings
    problems: tuple[Problem, ...] = ()
    named: frozenset[str] = frozenset()
    """The settings that the file holds."""
    broken: bool = False
    """True if the file is not TOML at all: it must not be overwritten without asking."""


def load_settings(path: Path | None = None) -> Settings:
    """Return the saved settings, with defaults for everything that is missing or cannot be read."""
    return read_settings(path).settings


def read_settings(path: Path | None = None) -> Loaded:
    """Return the saved settings and the problems found in the file."""
    path = path or places.config_path()
    try:
        text = places.read_text(path)
        data = _from_toml(text)
    except FileNotFoundError:
        return Loaded(Settings())
    except OSError as error:
        return Loaded(Settings(), (_problem(f"{path} cannot be read: {error.strerror}.", "The defaults are used."),))
    except _NOT_TOML as error:
        what = _problem(f"{path} is not valid TOML: {_why(error)}.", "The defaults are used. Repair the file or delete it.")
        return Loaded(Settings(), (what,), broken=True)
    return _from_data(path, data)


def save_settings(settings: Settings, path: Path | None = None, *, overwrite_broken: bool = False) -> Path:
    """Write the fields named in ``SAVED`` and return the file's path.

    Raises:
        GputopError: the file is not valid TOML (pass ``overwrite_broken`` after asking), cannot be written, or has a layout
            that line-by-line changes would damage.
    """
    path = path or places.config_path()
    before = ""
    if path.exists() and not (overwrite_broken and read_settings(path).broken):
        before = _readable_text(path)
    chosen = {name: getattr(settings, name) for name in SAVED}
    text = _with_values(before, chosen)
    _check(path, before, text, chosen)
    try:
        places.check_parents(path, "$GPUTOP_CONFIG")
        places.create_dirs(path.parent)
        # A settings file is often a link into a repository of dotfiles.
        places.replace_file(path, text.encode(), keep_link=True)
    except OSError as error:
        raise GputopError(
            f"{path} cannot be written: {error.strerror or error}.", "The settings hold until gputop ends."
        ) from error
    return path


def _problem(message: str, hint: str) -> Problem:
    from gputop.snapshot import Problem

    return Problem("settings", message, hint)


def _from_data(path: Path, data: Mapping[str, Any]) -> Loaded:
    values: dict[str, Any] = {}
    problems: list[Problem] = []
    known = {item.name for item in fields(Settings)}
    for name, value in data.items():
        if name not in known:
            problems.append(_problem(f"{path}: {name!r} is not a gputop setting.", "It is ignored."))
            continue
        accepted, expected = _accept(name, value)
        if expected:
            problems.append(_problem(f"{path}: {name} = {value!r} is not {expected}.", "The default is used."))
        else:
            values[name] = accepted
    return Loaded(replace(Settings(), **values), tuple(problems), frozenset(values))


def _accept(name: str, value: Any) -> tuple[Any, str]:
    """Return the value as ``Settings`` holds it, and a description of what was expected if it does not fit."""
    default = getattr(Settings(), name)
    if isinstance(default, bool):
        return value, "" if isinstance(value, bool) else "true or false"
    if isinstance(default, float):
        low, high = (0.0, MAX_SMOOTHING) if name == "smoothing" else (INTERVAL_MIN_S, INTERVAL_MAX_S)
        fits = isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high
        return (float(value), "") if fits else (value, f"a number from {low:g} to {high:g}")
    if isinstance(default, tuple):
        fits = isinstance(value, list) and all(isinstance(item, str | int) and not isinstance(item, bool) for item in value)
        return (tuple(str(item) for item in value), "") if fits else (value, "a list of GPU indices or UUIDs")
    choices = {"density": DENSITIES, "theme": THEMES}.get(name)
    if choices is not None:
        return value, "" if value in choices else "one of " + ", ".join(choices)
    return value, "" if isinstance(value, str) else "a string"


def _readable_text(path: Path) -> str:
    try:
        text = places.read_text(path)
        _from_toml(text)
    except OSError as error:
        raise GputopError(f"{path} cannot be read: {error.strerror}.", "The settings hold until gputop ends.") from error
    except _NOT_TOML as error:
        raise GputopError(f"{path} is not valid TOML: {_why(error)}.", "Repair it, or let gputop overwrite it.") from error
    return text


def _from_toml(text: str) -> dict[str, Any]:
    # Imported here: most users have no settings file, and the start waits for this module.
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib  # type: ignore[import-not-found, unused-ignore]
    found: dict[str, Any] = tomllib.loads(text)
    return found


def _why(error: Exception) -> str:
    return "it is nested too deeply" if isinstance(error, RecursionError) else str(error)


_NOT_TOML = (ValueError, RecursionError)
"""What tomllib raises: also for text that is not UTF-8, for a number of thousands of digits, and for deep nesting."""
_KEY = re.compile(r"^\s*([A-Za-z_]+)\s*=")
_TABLE = re.compile(r"^\s*\[")


def _with_values(text: str, values: Mapping[str, Any]) -> str:
    lines = text.splitlines()
    end = next((number for number, line in enumerate(lines) if _TABLE.match(line)), len(lines))
    left = dict(values)
    top = []
    for line in lines[:end]:
        found = _KEY.match(line)
        if found and found[1] in left:
            name = found[1]
            line = f"{name} = {_toml(left.pop(name))}"
        top.append(line)
    top += [f"{name} = {_toml(value)}" for name, value in left.items()]
    return "\n".join([*top, *lines[end:]]) + "\n"


def _toml(value: bool | float | str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value)
    import json

    return json.dumps(value, ensure_ascii=False)


def _check(path: Path, before: str, after: str, chosen: Mapping[str, Any]) -> None:
    wanted = {**_from_toml(before), **chosen}
    try:
        safe = _from_toml(after) == wanted
    except _NOT_TOML:
        safe = False
    if not safe:
        raise GputopError(f"{path} is laid out in a way that gputop cannot change safely.", "Edit it by hand.")
