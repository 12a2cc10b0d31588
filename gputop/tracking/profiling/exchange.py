"""The files with which a profile is requested and answered: next to the rank's ring, in a directory that only its user can
enter.

A request asks either for the expected cost, or for the profile itself. Both sides check what they read: a regular file of this
user, small, in a directory of mode 0700, with values of the right kind. A request is taken only once, and only while it is
fresh.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gputop.places import open_regular, replace_file
from gputop.tracking.journal import places, size_limit

STEPS_MAX = 10
FRESH_S = 30.0
"""An older request is void: its sender is gone."""
PAPER_BYTES_MAX = 1 << 20
"""A larger request or answer is refused."""
_ID = re.compile(r"[0-9a-f]{16}")


@dataclass(frozen=True, slots=True)
class Request:
    """``go`` False asks only for the expected cost."""

    id: str
    steps: int
    go: bool
    at: float
    """Wall clock, seconds since the epoch."""


def request_path(ring: Path) -> Path:
    """Return where a request to the rank with this ring is put."""
    return ring.with_suffix(".profile-request")


def answer_path(ring: Path) -> Path:
    """Return where the rank with this ring puts its answer."""
    return ring.with_suffix(".profile-answer")


def trace_path(ring: Path, request_id: str, number: int) -> Path:
    """Return where the rank with this ring puts the trace of one step."""
    return ring.with_suffix(f".{request_id}-{number}.trace")


def put(path: Path, content: Mapping[str, Any]) -> None:
    """Write one of the files, completely or not at all.

    Raises:
        OSError: the directory is gone, is not closed to others, or is full.
    """
    _check_directory(path.parent)
    raw = json.dumps(content).encode()
    size_limit.check(len(raw) - 1)
    replace_file(path, raw)


def read(path: Path) -> dict[str, Any]:
    """Return what one of the files holds.

    Raises:
        OSError: it is missing, or is not a small file that only this user can write.
        ValueError: it is damaged.
    """
    _check_directory(path.parent)
    with open_regular(path) as file:
        found = os.fstat(file.fileno())
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o022:
            raise PermissionError(1, "not a file that only this user can write", str(path))
        if found.st_size > PAPER_BYTES_MAX:
            raise ValueError(f"{path} is too large")
        content = json.loads(file.read(PAPER_BYTES_MAX))
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds no JSON object")
    return content


def take_request(path: Path) -> Request | None:
    """Return a request and remove it; None if there is none, or if it is damaged, old, or another user's."""
    try:
        content = read(path)
    except (OSError, ValueError, RecursionError):
        content = {}
    try:
        os.unlink(path)
    except OSError:  # it is still there: do not take it repeatedly
        return None
    return _request(content)


def _request(content: Mapping[str, Any]) -> Request | None:
    name, steps, go, at = (content.get(key) for key in ("id", "steps", "go", "at"))
    if not isinstance(name, str) or not _ID.fullmatch(name) or type(steps) is not int or not 1 <= steps <= STEPS_MAX:
        return None
    if not isinstance(go, bool) or not isinstance(at, int | float) or not math.isfinite(at):
        return None
    return Request(name, steps, go, float(at)) if abs(time.time() - at) <= FRESH_S else None


def _check_directory(path: Path) -> None:
    if not places.is_ours(path) or stat.S_IMODE(path.lstat().st_mode) & 0o077:
        raise PermissionError(1, "not a directory that only this user can enter", str(path))
