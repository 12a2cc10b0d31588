"""The files of one job, and how they are written so that a reader at any moment finds them whole.

``<jobs>/<id>/`` (0700) holds ``spec.json`` (what was asked for, written once), ``status.json`` (written by the supervisor,
replaced whole), ``spawned.json`` (who the supervisor is, before it can say so itself), ``stop.json`` (how to stop, written
by who asks), ``out.log`` (the launcher's output) and ``ranks/``
(torchrun's files for each rank). Imports the standard library alone: the supervisor stays small.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from gputop.errors import UsageError
from gputop.places import jobs_dir

SPEC = "spec.json"
STATUS = "status.json"
SPAWNED = "spawned.json"
STOP = "stop.json"
OUT_LOG = "out.log"
SUPERVISOR_LOG = "supervisor.log"
RANKS = "ranks"

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)


def job_dir(job_id: str) -> Path:
    """Return the directory of a job.

    Raises:
        UsageError: there is no such job.
    """
    path = jobs_dir() / job_id
    if not _ID.fullmatch(job_id) or not (path / SPEC).is_file():
        raise UsageError(f"There is no job {job_id!r}.", "gputop jobs lists them.")
    return path


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Replace ``path`` by ``data`` in one step, mode 0600.

    Raises:
        OSError: the disk is full, or the directory is gone.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | _NO_FOLLOW, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(data, file)
        os.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def read_json(path: Path) -> dict[str, Any] | None:
    """Return what ``path`` holds; None when it is missing, a link, or no JSON object."""
    try:
        handle = os.open(path, os.O_RDONLY | _NO_FOLLOW)
        with os.fdopen(handle, encoding="utf-8") as file:
            data = json.load(file)
    except (OSError, ValueError):
        return None
    return data if isinstance(data, dict) else None


def has_ended(directory: Path) -> bool:
    """Return whether the job of a directory has ended, as its supervisor wrote, or was lost, or is gone."""
    from gputop.jobs import identity

    status = read_json(directory / STATUS)
    if status is None:
        spawned = read_json(directory / SPAWNED)
        return not directory.is_dir() or (spawned is not None and not identity.lives(spawned))
    alive = identity.lives(status.get("supervisor")) or identity.lives(status.get("child"))
    return status.get("state") == "ended" or not alive


def open_log(path: Path) -> int:
    """Open a log for appending, mode 0600, and return its descriptor.

    Raises:
        OSError: it cannot be opened, or is a link.
    """
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _NO_FOLLOW, 0o600)
