"""Finds the line of the user's code that led to a call of gputop, and the variable in it.

It is found by walking up the stack to the first file that belongs to no library, never by depth: the number of calls between
here and the user's line changes.
"""

from __future__ import annotations

import linecache
import os
import re
import sys
from itertools import islice
from types import FrameType
from typing import Any

from gputop.frameworks import FRAMEWORKS

OWN = os.path.abspath(os.path.join(os.path.dirname(__file__), *[os.pardir] * 2)) + os.sep
"""The package gputop.tracking, wherever it is installed."""
_LIBRARIES = frozenset(
    ("gputop", "torch", *(name for known in FRAMEWORKS.values() if known.runs_backward for name in known.modules))
)
_FRAMES_MAX = 40
"""How many frames up the stack to search for the user's line; a framework's trainer is about 30 frames deep."""
_NAME = r"([A-Za-z_][\w.]*)"
_PATTERNS = (
    rf"\.scale\(\s*{_NAME}\s*[)/*]",
    rf"{_NAME}\s*\.backward\(",
    rf"backward\(\s*{_NAME}",
    rf"\(\s*{_NAME}\s*[/*][^()]*\)\s*\.backward\(",
)
_ACCELERATE = os.path.join("accelerate", "accelerator.py")
_MODULES = frozenset(("autograd", "accelerator", "fabric", "self", "engine", "model", "model_engine"))
"""Names before ``.backward(`` that are not a loss."""


class UserCode:
    """Distinguishes the user's code from that of libraries."""

    def __init__(self, torch_directory: str = "") -> None:
        self._roots = tuple(root + os.sep for root in (torch_directory, os.path.dirname(os.__file__)) if root)
        self.known_libraries: dict[str, bool] = {}
        """Of files that were met: whether each belongs to a library."""

    def called_through(self, path: str) -> bool:
        """Return whether a library's file whose path contains ``path`` is between this call and the user's line."""
        frame: FrameType | None = sys._getframe()
        for _ in range(_FRAMES_MAX):
            if frame is None or not self.is_library(frame.f_code.co_filename):
                return False
            if path in frame.f_code.co_filename:
                return True
            frame = frame.f_back
        return False

    def frame(self, start: FrameType | None = None) -> FrameType | None:
        """Return the nearest frame outside libraries, else the nearest one outside gputop and backward itself.

        ``start``: where the walk begins, to pass over calls of gputop; else the caller.
        """
        library = self.known_libraries.get
        frame: FrameType | None = sys._getframe(1) if start is None else start
        for _ in range(_FRAMES_MAX):
            if frame is None:
                break
            is_library = library(frame.f_code.co_filename)
            if not is_library and (is_library is False or not self._learn(frame.f_code.co_filename)):
                return frame
            frame = frame.f_back
        return _nearest_library()

    def _learn(self, filename: str) -> bool:
        found = self.known_libraries[filename] = self.is_library(filename)
        return found

    def is_library(self, filename: str) -> bool:
        """Return whether a file belongs to torch, a framework, Python itself, or gputop."""
        parts = filename.split(os.sep)
        if "site-packages" in parts or "dist-packages" in parts:
            return any(part in _LIBRARIES for part in parts[:-1])
        return filename.startswith((OWN, *self._roots))


def _nearest_library() -> FrameType | None:
    """Return the nearest frame outside gputop and backward itself, if all are those of libraries."""
    frame: FrameType | None = sys._getframe()
    for _ in range(_FRAMES_MAX):
        if frame is None:
            break
        code = frame.f_code
        if "backward" not in code.co_name and not code.co_filename.startswith(OWN):
            return frame
        frame = frame.f_back
    return None


def label(filename: str, line: int, columns: slice | None = None) -> str:
    """Return the variable that this source line runs backward on, else "line<N>".

    ``columns``: the part of the line, in bytes, that calls; one line may run backward several times.
    """
    source = linecache.getline(filename, line)
    call = source.encode("utf-8", "replace")[columns].decode("utf-8", "replace") if columns is not None else ""
    for text in (call, source):
        for pattern in _PATTERNS:
            found = re.search(pattern, text)
            if found is not None:
                name = found.group(1).rpartition(".")[2]
                if name not in _MODULES:
                    return name
    return f"line{line}"


def columns_of(frame: FrameType) -> slice | None:
    """Return which bytes of its line the call that a frame is in takes up; None if Python does not know, as before 3.11."""
    positions: Any = getattr(frame.f_code, "co_positions", None)
    if positions is None:
        return None
    first, last, begin, end = next(islice(positions(), frame.f_lasti // 2, None), (None,) * 4)
    return slice(begin, end) if first == last == frame.f_lineno and begin is not None and end is not None else None


def accelerate_divides_by() -> float:
    """Return the number by which Accelerate divides the loss in the backward that it is running; 1.0 if it runs none."""
    frame: FrameType | None = sys._getframe()
    for _ in range(_FRAMES_MAX):
        if frame is None:
            break
        if frame.f_code.co_name == "backward" and frame.f_code.co_filename.endswith(_ACCELERATE):
            steps = getattr(frame.f_locals.get("self"), "gradient_accumulation_steps", None)
            return float(steps) if isinstance(steps, int) and steps > 0 else 1.0
        frame = frame.f_back
    return 1.0
