"""What another machine sends, decoded without trusting it: typed, bounded in number, and without anything that controls a
terminal. The records hold no code and no path that this machine would open.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from gputop.questions import Answer, Misunderstood, answer_in, is_answer
from gputop.run_questions import GpusAnswer, RunsAnswer
from gputop.snapshot import SCHEMA_VERSION, Points, Problem, Snapshot
from gputop.terminal_text import strip_controls
from gputop.units import INTERVAL_MAX_S, INTERVAL_MIN_S
from gputop.wire import LEVELS_MAX, FormatError, decode, parse_json

LINE_MAX_BYTES = 64 << 20
"""Length limit for a line from another machine. The past of a hundred ranks with dozens of metrics takes dozens of MiB."""
MOST = {
    "devices": 512,
    "processes": 4096,
    "runs": 1024,
    "process_runs": 1024,
    "ended_runs": 64,
    "communicators": 256,
    "logs": 256,
    "notes": 64,
    "interfaces": 256,
    "paths": 1024,
    "launches": 256,
    "waiting_launchers": 256,
}
"""Field of a snapshot -> maximum number of its records to show."""
RANKS_MOST = 4096
"""Maximum number of ranks of a run, and of a communicator."""
POINTS_MOST = 2_000_000
"""Maximum number of metric values in one snapshot: twice the number in one answer."""
INTEGER_MAX = 1 << 64
"""The driver's counters have 64 bits; a larger integer is not a reading."""
OPENINGS_MOST = 300_000
"""Lists and objects in one line. A hundred ranks with fifty metrics make some 20,000; this many take a second to decode."""

_NO_WORD = re.compile(r"[^\w.:@/+-]|^-")
_SURROGATES = re.compile("[\ud800-\udfff]")
"""Lone surrogates: JSON may hold one, but text with one cannot be encoded."""
_DIGITS_ALIKE = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER = b"0" * 20


class NewerStreamError(FormatError):
    """The stream is of a newer version than this gputop reads."""


def snapshot_in(line: bytes) -> Snapshot:
    """Return the snapshot in a line; its notes say what was left out.

    Raises:
        NewerStreamError: it is of a newer version.
        FormatError: it holds no snapshot.
    """
    data = data_in(line)
    version = data.get("schema_version", 1) if isinstance(data, dict) else None
    if not isinstance(version, int) or "sequence" not in data:
        raise FormatError("not a snapshot")
    if version > SCHEMA_VERSION:
        raise NewerStreamError(f"schema_version {version} is newer than this gputop reads ({SCHEMA_VERSION})")
    cut = _cut(data)
    return _bounded(decode(Snapshot, data), cut)


def answer_of(line: bytes) -> Answer | None:
    """Return the answer in a line; None if there is none, and ``Misunderstood`` for one that this gputop cannot read.

    Raises:
        FormatError: it is not JSON, or has more records than a machine.
    """
    if not is_answer(line):
        return None
    data = data_in(line)
    try:
        answer = answer_in(json.dumps(data, separators=(",", ":")).encode())
    except FormatError:
        return Misunderstood(next(iter(data)))
    if isinstance(answer, GpusAnswer):
        gpus = (past for past in answer.gpus if past.is_whole and all(map(math.isfinite, past.times)))
        return replace(answer, gpus=tuple(gpus)[: MOST["devices"]])
    return replace(answer, points=_whole(answer.points)) if isinstance(answer, RunsAnswer) else answer


def data_in(line: bytes) -> Any:
    """Return the JSON in a line, without control characters and lone surrogates.

    Raises:
        FormatError: it holds none, or more records than a machine has.
    """
    if line.count(b"[") + line.count(b"{") > OPENINGS_MOST:
        raise FormatError("more records than a machine has")
    data = parse_json(line, LEVELS_MAX)
    # JSON holds control characters escaped, except for DEL; C1 controls and marks of direction are not ASCII.
    if b"\\" in line or b"\x7f" in line or not line.isascii() or _LONG_NUMBER in line.translate(_DIGITS_ALIKE):
        return _without_controls(data)
    return data


def _without_controls(value: Any) -> Any:
    if isinstance(value, str):
        return value if value.isprintable() else _cleaned(value)
    if isinstance(value, dict):
        return {_cleaned(key): _without_controls(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_controls(item) for item in value]
    if isinstance(value, int) and abs(value) > INTEGER_MAX:
        raise FormatError("a number without bounds")
    return value


def _cleaned(text: str) -> str:
    text = strip_controls(text)
    return text if text.isascii() else _SURROGATES.sub("", text)


def _cut(data: dict[str, Any]) -> list[str]:
    """Leave in plain data at most as many records as a screen can show; return what was left out.

    Decoding a record takes longer than parsing it, and all other hosts wait for it.
    """
    cut: list[str] = []
    for name, most in MOST.items():
        records = data.get(name)
        if isinstance(records, list) and len(records) > most:
            cut.append(f"{most} of {len(records)} {name.replace('_', ' ')}")
            data[name] = records[:most]
    for name in ("runs", "process_runs", "communicators"):
        listed = data.get(name)
        for item in listed if isinstance(listed, list) else ():
            ranks = item.get("ranks") if isinstance(item, dict) else None
            if isinstance(ranks, list) and len(ranks) > RANKS_MOST:
                cut.append(f"{RANKS_MOST} of {len(ranks)} ranks of a run")
                item["ranks"] = ranks[:RANKS_MOST]
    return cut


def _bounded(snapshot: Snapshot, cut: list[str]) -> Snapshot:
    """Return the snapshot without numbers too large to calculate with; a note says what was ``cut``.

    Raises:
        FormatError: its times are invalid.
    """
    times = (snapshot.time, snapshot.monotonic_s, snapshot.interval_s)
    if not all(math.isfinite(value) for value in times):
        raise FormatError("a snapshot without a time")
    points = _whole(snapshot.points, cut.append)
    interval_s = min(INTERVAL_MAX_S, max(INTERVAL_MIN_S, snapshot.interval_s))
    interfaces = tuple(replace(item, name=_word(item.name)) for item in snapshot.interfaces)
    paths = tuple(replace(item, interface=item.interface and _word(item.interface)) for item in snapshot.paths)
    snapshot = replace(snapshot, points=points, interval_s=interval_s, interfaces=interfaces, paths=paths)
    if not cut:
        return snapshot
    note = Problem("other", f"This machine reports more than is shown: only {', '.join(cut)} are.", "")
    return replace(snapshot, notes=(*snapshot.notes, note))


def _word(name: str) -> str:
    """Return the name of an interface without what means something to a shell: it becomes part of commands to copy."""
    return _NO_WORD.sub("_", name)


def _whole(points: tuple[Points, ...], say: Callable[[str], None] = lambda left_out: None) -> tuple[Points, ...]:
    """Return the points whose columns are equally long, as many as ``POINTS_MOST`` allows; ``say`` if there are more."""
    kept, total = [], 0
    for part in points:
        if not len(part.steps) == len(part.times) == len(part.values) or not all(map(math.isfinite, part.times)):
            continue
        total += len(part.steps)
        if total > POINTS_MOST:
            say(f"{POINTS_MOST} values of metrics")
            break
        kept.append(part)
    return tuple(kept)
