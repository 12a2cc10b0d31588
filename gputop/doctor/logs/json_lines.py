"""Lines of a log in which each record is a JSON object, as written by a logger, Docker or Kubernetes. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gputop.doctor.logs.lines import TRACEBACK, rank_and_text
from gputop.wire import FormatError, parse_json

BEGINS_WITHIN = 200
"""An object begins within this many bytes of its line, after a runtime's timestamp or a rank."""
_LEVELS_MAX = 4
"""How deeply nested objects are searched."""
_MESSAGES = ("message", "msg", "log", "event", "text", "body")
_LEVELS = ("level", "levelname", "severity", "log_level", "lvl")
_MARKS = {
    **dict.fromkeys(("error", "err", "critical", "fatal", "panic", "severe", "emergency", "alert"), "ERROR: "),
    **dict.fromkeys(("warning", "warn"), "WARNING: "),
}
_RANKS = ("rank", "global_rank", "RANK")
_RANK_MAX = 999_999
"""As many digits as ``lines`` reads. Loggers write -1 where there is no process group."""


def unfolded(line: str, tells: Callable[[str], bool], in_traceback: bool = False) -> list[str]:
    """Return the lines of the message or traceback in a JSON object, with its level and rank; otherwise the line itself.

    ``tells``: whether a message is informative by itself; if not, the line is kept whole for its other fields.
    ``in_traceback``: a traceback is open, so its next line may be any message, and gets no level.
    """
    rank, text = rank_and_text(line)
    found = _object(text)
    if found is None:
        return [line]
    message = next((found[name] for name in _MESSAGES if isinstance(found.get(name), str)), None)
    if message is not None and message.startswith("{"):
        return [_with_rank(rank, part) for part in unfolded(message.strip(), tells, in_traceback)]
    fields = list(_fields(found))
    trace = next((value for _, value in fields if isinstance(value, str) and TRACEBACK in value), None)
    if trace is not None:
        lines = trace[trace.find(TRACEBACK) :].splitlines()
    elif message is None:
        return [line]
    else:
        level = next((value.lower() for name, value in fields if name in _LEVELS and isinstance(value, str)), "")
        mark = _MARKS.get(level, "")
        if not (in_traceback or mark == "ERROR: " or tells(message)):
            return [line]
        lines = message.splitlines()
        if not in_traceback:
            lines[:1] = [f"{mark}{first}" for first in lines[:1]]
    own = next((value for name, value in fields if name in _RANKS and type(value) is int and 0 <= value <= _RANK_MAX), rank)
    return [_with_rank(own, part) for part in lines] or [line]


def _with_rank(rank: int | None, text: str) -> str:
    return text if rank is None else f"[rank{rank}]: {text}"


def _object(text: str) -> dict[str, Any] | None:
    if not text.lstrip().startswith("{"):
        return None
    try:
        found = parse_json(text)
    except FormatError:
        return None
    return found if isinstance(found, dict) else None


def _fields(found: dict[str, Any], level: int = 0) -> Iterator[tuple[str, Any]]:
    for name, value in found.items():
        yield name, value
        if isinstance(value, dict) and level < _LEVELS_MAX:
            yield from _fields(value, level + 1)
