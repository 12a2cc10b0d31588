"""The trace that torch's profiler writes (Chrome's format), read without trusting it.

Times are in microseconds since ``baseTimeNanoseconds``, ns since the epoch.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Event:
    """One event with a length. ``begin_ns``: wall clock, ns since the epoch."""

    category: str
    name: str
    thread: str
    begin_ns: int
    length_ns: int
    correlation: int | None = None
    """The number that a kernel shares with the call that launched it."""

    @property
    def end_ns(self) -> int:
        """When it ended."""
        return self.begin_ns + self.length_ns


@dataclass(slots=True)
class Trace:
    """What one file holds."""

    raw: dict[str, Any]
    events: list[Event] = field(default_factory=list)


def parse(text: bytes) -> Trace:
    """Return the events of a trace; damaged ones are skipped.

    Raises:
        ValueError: it is not a trace.
    """
    try:
        raw = json.loads(text)
    except RecursionError as error:
        raise ValueError("too deep") from error
    if not isinstance(raw, dict) or not isinstance(raw.get("traceEvents"), list):
        raise ValueError("it has no list of events")
    base = raw.get("baseTimeNanoseconds", 0)
    base_ns = base if type(base) is int and abs(base) < 1 << 62 else 0
    return Trace(raw, [event for item in raw["traceEvents"] if (event := _event(item, base_ns)) is not None])


def _event(item: Any, base_ns: int) -> Event | None:
    if not isinstance(item, Mapping) or item.get("ph") != "X":
        return None
    category, name = item.get("cat"), item.get("name")
    ts, dur = item.get("ts"), item.get("dur")
    if not isinstance(category, str) or not isinstance(name, str) or ts is None or dur is None:
        return None
    if not _is_time(ts) or not _is_time(dur):
        return None
    args = item.get("args")
    found = args.get("correlation") if isinstance(args, Mapping) else None
    correlation = found if type(found) is int else None
    return Event(category, name, str(item.get("tid")), base_ns + int(ts * 1000), int(dur * 1000), correlation)


def _is_time(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and 0 <= value < 1e16


def joined(traces: list[Trace]) -> dict[str, Any]:
    """Return the traces of several steps as one, with unique ids for its arrows."""
    whole = {**traces[0].raw, "traceEvents": []}
    for number, trace in enumerate(traces):
        for item in trace.raw["traceEvents"]:
            if isinstance(item, dict) and item.get("ph") in ("s", "f", "t") and type(item.get("id")) is int:
                item = {**item, "id": item["id"] + (number << 40)}
            whole["traceEvents"].append(item)
    return whole
