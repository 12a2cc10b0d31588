"""The files of one job, written so that a reader never sees an incomplete one.

``<jobs>/<id>/`` (mode 0700) contains:

* ``spec.json``: what to run; written once.
* ``status.json``: written by the supervisor, always replaced as a whole.
* ``spawned.json``: identifies the supervisor until it writes its first status.
* ``stop.json``: how to stop; written by whoever requests it.
* ``kept.json``: the job continues without the process that started it; only where ``spec.json`` names that process.
* ``out.log``: the launcher's output; ``reserve``: disk space for the end of it, see ``keeper``.
* ``supervisor.log``: what the supervisor itself prints.
* ``ranks/``: torchrun's files for each rank.

A job that Slurm supervises has no supervisor of ours, but:

* ``batch.sh``: the script that Slurm accepted.
* ``ended.json``: the script's exit code and end, written by the script itself.
* ``nodes/<node>/``: torchrun's files for each rank on a node.

Imports no third-party package: the supervisor stays small.
"""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path
from typing import Any

from gputop.errors import UsageError
from gputop.places import jobs_dir, open_regular, replace_file
from gputop.wire import FormatError, parse_json

SPEC = "spec.json"
STATUS = "status.json"
SPAWNED = "spawned.json"
STOP = "stop.json"
KEPT = "kept.json"
OUT_LOG = "out.log"
RESERVE = "reserve"
SUPERVISOR_LOG = "supervisor.log"
RANKS = "ranks"
BATCH = "batch.sh"
ENDED = "ended.json"
NODES = "nodes"

PADDED_BYTES = 4096
"""Files are padded with spaces to one block so that they can be overwritten in place on a full disk."""

FILE_BYTES = 4 << 20
"""gputop writes no larger record."""

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)


def job_dir(job_id: str) -> Path:
    """Return the directory of a job.

    Raises:
        UsageError: there is no such job.
    """
    path = jobs_dir() / job_id
    if not _ID.fullmatch(job_id) or not os.path.lexists(path / SPEC):
        raise UsageError(f"There is no job {job_id!r}.", "gputop jobs lists them.")
    return path


def write_json(path: Path, data: dict[str, Any]) -> None:
    """Replace the content of ``path`` by ``data`` atomically, mode 0600.

    Raises:
        OSError: the disk is full, or the directory is gone.
    """
    replace_file(path, json.dumps(data).ljust(PADDED_BYTES).encode())


def overwrite_json(path: Path, data: dict[str, Any]) -> None:
    """Overwrite the content of ``path``, which needs no disk space. For a moment, a reader may see only part of it.

    Raises:
        OSError: the new content is longer than the old, or there is no such file.
    """
    content = json.dumps(data).encode()
    handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK | _NO_FOLLOW)
    try:
        size = os.fstat(handle).st_size
        if len(content) > size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        os.pwrite(handle, content.ljust(size), 0)
    finally:
        os.close(handle)


def load_json(path: Path, private: bool = False) -> dict[str, Any]:
    """Return the JSON object in ``path``. ``private``: nobody else may have written it.

    Raises:
        OSError: the file cannot be read, is a link or anything else, or is not private.
        ValueError: it contains anything else; the message is written to follow the name of the file.
    """
    with open_regular(path) as file:
        found = os.fstat(file.fileno())
        if private and (found.st_uid != os.geteuid() or found.st_mode & 0o022):
            raise PermissionError(f"{path} can be written by other users")
        content = file.read(FILE_BYTES + 1)
    if len(content) > FILE_BYTES:
        raise ValueError("is too large")
    try:
        data = parse_json(content)
    except FormatError as error:
        raise ValueError("is not JSON") from error
    if not isinstance(data, dict):
        raise ValueError("is not a JSON object")
    return data


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in ``path``; None if the file is missing, a link, or contains anything else."""
    try:
        return load_json(path)
    except (OSError, ValueError):
        return None


def has_ended(directory: Path) -> bool:
    """Return whether the job of a directory has ended, is lost, or was deleted."""
    from gputop.jobs import identity

    status = read_json(directory / STATUS)
    if status is None:
        spawned = read_json(directory / SPAWNED)
        return not directory.is_dir() or (spawned is not None and not identity.is_alive(spawned))
    alive = identity.is_alive(status.get("supervisor")) or identity.is_alive(status.get("child"))
    return status.get("state") == "ended" or not alive


def open_log(path: Path) -> int:
    """Open a log for appending, mode 0600, and return its descriptor.

    Raises:
        OSError: the file cannot be opened, or is a link.
    """
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | _NO_FOLLOW, 0o600)
