"""Reads the records of a job and checks each value, so that a damaged record affects only its own job."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gputop.errors import UsageError
from gputop.jobs import record

_DEPTH = 8
"""How deep values may be nested."""


class UnreadableJobError(UsageError):
    """A job's records are damaged or cannot be read."""

    def __init__(self, directory: Path, reason: str) -> None:
        super().__init__(f"Job {directory.name} cannot be read: {reason}.", f"Correct or delete {directory}.")


@dataclass(frozen=True, slots=True)
class _Kind:
    """A kind of value, and the check for it."""

    name: str
    holds: Callable[[Any], bool]


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63


def _is_number(value: Any) -> bool:
    return _is_whole(value) or (isinstance(value, float) and math.isfinite(value) and abs(value) < 1e12)


def _is_plain(value: Any, depth: int = _DEPTH) -> bool:
    if isinstance(value, Mapping):
        return depth > 0 and all(_is_text(key) and _is_plain(item, depth - 1) for key, item in value.items())
    if isinstance(value, list):
        return depth > 0 and all(_is_plain(item, depth - 1) for item in value)
    return value is None or isinstance(value, bool) or _is_text(value) or _is_whole(value) or isinstance(value, float)


def _is_process(value: Any) -> bool:
    return (
        isinstance(value, Mapping)
        and _is_whole(value.get("pid"))
        and (value.get("start_ticks") is None or _is_whole(value["start_ticks"]))
        and (value.get("boot_id") is None or _is_text(value["boot_id"]))
    )


def _is_list_of(holds: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and all(map(holds, value))


_TEXT = _Kind("text", _is_text)
_TEXTS = _Kind("a list of texts", _is_list_of(_is_text))
_WHOLE = _Kind("a whole number", _is_whole)
_WHOLES = _Kind("a list of whole numbers", _is_list_of(_is_whole))
_TIME = _Kind("a time", _is_number)
_PROCESS = _Kind("a process", _is_process)
_VALUES = _Kind("a table of values", lambda value: isinstance(value, Mapping) and _is_plain(value))
_REQUESTS = _Kind("a list of requests", lambda value: isinstance(value, list) and _is_plain(value))

_SPEC: Mapping[str, _Kind] = {
    "id": _TEXT,
    "name": _TEXT,
    "argv": _TEXTS,
    "recipe_id": _TEXT,
    "device_uuids": _TEXTS,
    "values": _VALUES,
    "hostname": _TEXT,
    "launch_id": _TEXT,
    "nodes": _WHOLE,
    "created_at": _TIME,
    "slurm": _VALUES,
}
_SPEC_REQUIRED = ("id", "name", "argv")
_STATUS: Mapping[str, _Kind] = {
    "state": _TEXT,
    "supervisor": _PROCESS,
    "child": _PROCESS,
    "began_at": _TIME,
    "ended_at": _TIME,
    "exit_code": _WHOLE,
    "signal": _TEXT,
    "asked": _REQUESTS,
    "swept": _WHOLES,
    "survivors": _WHOLES,
    "problem": _TEXT,
    "slurm": _VALUES,
}
_ENDED: Mapping[str, _Kind] = {"exit_code": _WHOLE, "ended_at": _TIME}


def read_spec(directory: Path) -> dict[str, Any]:
    """Return what a job runs, without values that are null.

    Raises:
        UnreadableJobError: the file is missing, damaged, or belongs to another job.
    """
    spec = _read(directory, record.SPEC, _SPEC, _SPEC_REQUIRED)
    if spec["id"] != directory.name:
        raise UnreadableJobError(directory, f"{record.SPEC} belongs to job {spec['id']!r}")
    return spec


def read_status(directory: Path) -> dict[str, Any]:
    """Return a job's status, without values that are null; {} before the first one is written.

    Raises:
        UnreadableJobError: the file is damaged.
    """
    try:
        return _read(directory, record.STATUS, _STATUS)
    except FileNotFoundError:
        return {}


def read_ended(directory: Path) -> dict[str, Any]:
    """Return the end that the script of a Slurm job has recorded; {} before that.

    Raises:
        UnreadableJobError: the file is damaged.
    """
    try:
        return _read(directory, record.ENDED, _ENDED)
    except FileNotFoundError:
        return {}


def read_supervisor(directory: Path, status: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what identifies the supervisor: from the status, else from the record of its start; None if neither has it."""
    found = status.get("supervisor") or record.read_json(directory / record.SPAWNED)
    return dict(found) if found and _is_process(found) else None


def _read(directory: Path, name: str, kinds: Mapping[str, _Kind], required: tuple[str, ...] = ()) -> dict[str, Any]:
    try:
        data = record.load_json(directory / name)
    except FileNotFoundError:
        if required:
            raise UnreadableJobError(directory, f"{name} is missing") from None
        raise
    except OSError as error:
        raise UnreadableJobError(directory, f"{name}: {error.strerror}") from error
    except ValueError as error:
        raise UnreadableJobError(directory, f"{name} {error}") from error
    found = {key: value for key, value in data.items() if value is not None}
    for key in required:
        if key not in found:
            raise UnreadableJobError(directory, f"{name} has no {key!r}")
    for key, kind in kinds.items():
        if key in found and not kind.holds(found[key]):
            raise UnreadableJobError(directory, f"{key!r} in {name} is not {kind.name}")
    return found
