"""How the user last arranged the screens: the order of the table, how charts are drawn, the recipe started last. No Textual.

Kept without asking, in a small file in the state directory; the settings file takes precedence over it. A thread writes the
file, completely or not at all, so that no disk delays a key. A file that cannot be read is named, and never replaced.
"""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Collection
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from gputop import places
from gputop.settings.table import DENSITIES, MAX_SMOOTHING
from gputop.settings.values import Settings
from gputop.wire import FormatError, parse_json

CHART_OPTIONS = ("log_axis", "smoothing", "per_rank", "density")
"""Fields of ``Settings`` that keys of a screen change."""
_BYTES_MOST = 16_384
_TEXT_MOST = 200
"""More bytes in the file, or characters in a value, are not gputop's."""
FINISH_S = 1.0
"""How long the exit waits for the file to be written."""


@dataclass(frozen=True, slots=True)
class Layout:
    """What is remembered; None if nothing is."""

    sort: str | None = None
    invert: bool | None = None
    tree: bool | None = None
    recipe: str | None = None
    log_axis: bool | None = None
    smoothing: float | None = None
    per_rank: bool | None = None
    density: str | None = None

    def settings(self, settings: Settings, named: Collection[str]) -> Settings:
        """Return the settings with the remembered chart options, except for those that the settings file names."""
        kept = {name: getattr(self, name) for name in CHART_OPTIONS if name not in named}
        return replace(settings, **{name: value for name, value in kept.items() if value is not None})


def file() -> Path:
    """Return the file that holds the layout."""
    return places.state_dir() / "layout.json"


def read_layout() -> Layout:
    """Return the remembered layout, without what does not fit; nothing is remembered if the file cannot be read."""
    with contextlib.suppress(OSError, FormatError):
        return _read()
    return Layout()


def _read() -> Layout:
    """Return the remembered layout, without what does not fit.

    Raises:
        OSError, FormatError: the file exists, but cannot be read.
    """
    try:
        with places.open_regular(file()) as opened:
            data = parse_json(opened.read(_BYTES_MOST))
    except FileNotFoundError:
        return Layout()
    if not isinstance(data, dict):
        raise FormatError("it holds no layout")
    return Layout(**{item.name: data[item.name] for item in fields(Layout) if _fits(item.name, data.get(item.name))})


def _fits(name: str, value: Any) -> bool:
    if name in ("invert", "tree", "log_axis", "per_rank"):
        return isinstance(value, bool)
    if name == "smoothing":
        return isinstance(value, float | int) and not isinstance(value, bool) and 0 <= value <= MAX_SMOOTHING
    if name == "density":
        return value in DENSITIES
    return isinstance(value, str) and len(value) <= _TEXT_MOST


class LayoutKeeper:
    """Holds the layout and writes its changes, the newest only."""

    def __init__(self) -> None:
        self.problem: str | None = None
        """Why nothing is remembered: the file and the reason."""
        try:
            self.layout = _read()
        except (OSError, FormatError) as error:
            self.layout = Layout()
            self.problem = f"{file()} cannot be read: {getattr(error, 'strerror', None) or error}."
        self._lock = threading.Lock()
        self._waiting: Layout | None = None
        self._writer: threading.Thread | None = None

    def keep(self, **changes: Any) -> None:
        """Remember these values from now on; returns at once. Of a file that could not be read, nothing is replaced."""
        changed = replace(self.layout, **changes)
        if changed == self.layout:
            return
        self.layout = changed
        if self.problem is not None:
            return
        with self._lock:
            self._waiting = changed
            if self._writer is None:
                self._writer = threading.Thread(target=self._write_all, name="gputop-layout", daemon=True)
                self._writer.start()

    def finish(self) -> None:
        """Wait until the last change is written, ``FINISH_S`` at most."""
        writer = self._writer
        if writer is not None:
            writer.join(FINISH_S)

    def _write_all(self) -> None:
        while True:
            with self._lock:
                layout, self._waiting = self._waiting, None
                if layout is None:
                    self._writer = None
                    return
            with contextlib.suppress(OSError):  # a convenience: a full disk is reported elsewhere
                _write(layout)


def _write(layout: Layout) -> None:
    target = file()
    places.make_private_dir(target.parent)
    changed = {name: value for name, value in asdict(layout).items() if value is not None}
    places.replace_file(target, json.dumps(changed).encode())
