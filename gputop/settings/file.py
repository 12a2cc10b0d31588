"""The configuration file: the user's choices on the settings screen, kept between starts as TOML.

A file that cannot be read is reported and ignored, and never overwritten without the user's consent. Saving changes only the
lines of gputop's own keys; comments and unknown keys survive. Imports no Textual.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gputop import places
from gputop.errors import GputopError
from gputop.settings.table import COMBINED_WITH_NONE, SETTINGS
from gputop.settings.values import Settings

if TYPE_CHECKING:
    from gputop.snapshot import Problem

SAVED = ("interval_s", "theme", "ascii", "density", "log_axis", "smoothing", "per_rank")
"""The fields that the settings screen changes; the others are read from the file but never written."""

_SHOWN_MOST = 60
"""More characters of a wrong value do not help to find it."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """The settings that could be read, and what was wrong with the file."""

    settings: Settings
    problems: tuple[Problem, ...] = ()
    named: frozenset[str] = frozenset()
    """The settings that the file holds."""
    broken: bool = False
    """True if the file is not TOML at all: it must not be overwritten without asking."""


def load_settings(path: Path | None = None, names: Iterable[str] = SETTINGS) -> Settings:
    """Return these saved settings, with defaults for everything that is missing or cannot be read."""
    return read_settings(path, names).settings


def read_settings(path: Path | None = None, names: Iterable[str] = SETTINGS) -> Loaded:
    """Return the saved settings and the problems found in the file; only these ``names`` are checked and returned."""
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
    wanted = frozenset(names)
    kept = {name: value for name, value in data.items() if name in wanted or name not in SETTINGS}
    return _from_data(path, text, kept)


def place_of(name: str) -> str:
    """Return where a saved setting is, as problems name it: the file and the line."""
    path = places.config_path()
    try:
        text = places.read_text(path)
        value = _from_toml(text).get(name)
    except (OSError, *_NOT_TOML):
        return f"{path}: {name}"
    return _place(path, text, name, value)


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


def _from_data(path: Path, text: str, data: Mapping[str, Any]) -> Loaded:
    from gputop.settings.checks import accepted

    values: dict[str, Any] = {}
    problems: list[Problem] = []
    for name, value in data.items():
        place = _place(path, text, name, value)
        if name not in SETTINGS:
            problems.append(_problem(f"{place} is not a gputop setting{_meant(name)}.", "It is ignored."))
            continue
        must = f"{place} must be {SETTINGS[name].allowed}"
        try:
            values[name] = accepted(name, value, path.parent)
        except ValueError:
            # It may hold a password.
            what = must if name == "prometheus" else f"{must}, not {_shown(value)}"
            problems.append(_problem(f"{what}.", "The default is used."))
        except GputopError as error:
            problems.append(_problem(f"{must}: {error.message}", "The default is used."))
    for name, others in COMBINED_WITH_NONE.items():
        other = next((other for other in others if other in values), None)
        if name in values and other is not None:
            del values[name]
            what = f"{_place(path, text, name, data[name])} cannot be combined with {other}."
            problems.append(_problem(what, "It is ignored."))
    return Loaded(replace(Settings(), **values), tuple(problems), frozenset(values))


def _place(path: Path, text: str, name: str, value: Any) -> str:
    """Return the file, the line if it is found, and the key."""
    shown = name if name in SETTINGS else repr(name)
    number = _line_of(text, name, isinstance(value, dict | list))
    return f"{path}, line {number}: {shown}" if number else f"{path}: {shown}"


def _line_of(text: str, name: str, may_be_table: bool) -> int | None:
    """Return the number of the line in which a key of the file begins; None if it is written in a rare way."""
    key = rf"[\"']?{re.escape(name)}[\"']?\s*"
    start = re.compile(rf"\s*(?:{key}[=.]" + (rf"|\[+\s*{key}[].])" if may_be_table else ")"))
    lines = text.splitlines()
    for place, line in enumerate(lines):
        if start.match(line):
            try:
                before = _from_toml("\n".join(lines[:place]))
            except _NOT_TOML:  # inside a text of several lines
                continue
            if name not in before:
                return place + 1
    return None


def _meant(name: str) -> str:
    """Return a hint at the setting that somebody may have meant."""
    import difflib

    close = difflib.get_close_matches(name.replace("-", "_"), SETTINGS, 1)
    return f"; {close[0]} is" if close else ""


def _shown(value: Any) -> str:
    shown = repr(value) if not isinstance(value, bool) else _toml(value)
    return shown if len(shown) <= _SHOWN_MOST else shown[: _SHOWN_MOST - 1] + "…"


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
