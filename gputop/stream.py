"""The lines of a stream of snapshots: a record that does not change is sent once, and stays the same object for the reader.

Every reader accepts complete lines, as ``Snapshot.to_json`` writes them. A screen asks its own sampler, which has the same
version, to send only changes (``SnapshotWriter``): ``since`` then names the line that this one continues. An unchanged process
is only its PID, a changed one is its PID with the fields that changed; the same holds for devices and runs. Points without
steps and times have those of the points before them, and a long column is its numbers in base64: of 64 ranks that log a hundred
times a second, as text they take a fifth of the sampler's time and more of the screen's, and most of the time in which an
old run opens.
"""

from __future__ import annotations

import json
import math
import operator
from array import array
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

from gputop.device import Device
from gputop.process import Process, ProcessRun
from gputop.snapshot import Points, Run, Snapshot, checked_version
from gputop.wire import FormatError, decode, encode, fields_decoder, parse_json, to_plain

T = TypeVar("T")
SINCE = "since"
"""The key of a line that holds changes: the sequence of the line that it continues."""
_ROWS: tuple[tuple[str, Any, str], ...] = (
    ("devices", Device, "uuid"),
    ("processes", Process, "pid"),
    ("process_runs", ProcessRun, "key"),
    ("ended_runs", ProcessRun, "key"),
    ("runs", Run, "run_id"),
)
"""The lists whose records come again and again, and the field that identifies a record."""
_COLUMNS = (("steps", "q"), ("times", "d"), ("values", "d"))
PACKED_MIN = 8
"""A shorter column is a list of numbers."""
_SENT_ONCE: dict[str, Any] = dict.fromkeys((*(name for name, _, _ in _ROWS), "points"), ())
_Known = dict[Any, tuple[dict[str, Any], dict[str, Any], T]]
_Sent = dict[Any, tuple[Any, tuple[Any, ...]]]
"""By key: the record that was sent, and its fields."""
_Plain = Callable[[Any, bool], Any]


class SnapshotWriter:
    """Writes the lines of one stream, for a reader that reads every one of them."""

    def __init__(self) -> None:
        self._rows = {name: _RowsSent(kind, key) for name, kind, key in _ROWS}
        self._last: int | None = None

    def forget(self) -> None:
        """Write the next line completely: the reader has lost one."""
        self._last = None
        for rows in self._rows.values():
            rows.sent = {}

    def line(self, snapshot: Snapshot) -> str:
        """Return the next line, without a newline."""
        try:
            return self._line(snapshot, to_plain)
        except (TypeError, ValueError):
            # A value is not finite, or not JSON: check every value, which takes several times as long.
            return self._line(snapshot, encode)

    def _line(self, snapshot: Snapshot, plain: _Plain) -> str:
        data = plain(replace(snapshot, **_SENT_ONCE), True)
        if self._last is not None:
            data[SINCE] = self._last
        data["points"] = point_rows(snapshot.points, plain)
        sent = {}
        for name, rows in self._rows.items():
            data[name], sent[name] = rows.changes(getattr(snapshot, name), plain)
        line = json.dumps(data, separators=(",", ":"), allow_nan=False)
        self._last = snapshot.sequence
        for name, rows in self._rows.items():
            rows.sent = sent[name]
        return line


class _RowsSent:
    """What the last line contained of one list."""

    def __init__(self, kind: Any, key: str) -> None:
        self._names = tuple(kind.__dataclass_fields__)
        self._read = operator.attrgetter(*self._names)
        self._key = key
        self._key_of = operator.attrgetter(key)
        self._is_same = _comparison(kind)
        self.sent: _Sent = {}

    def changes(self, records: Iterable[Any], plain: _Plain) -> tuple[list[Any], _Sent]:
        """Return the rows to send, and what the reader knows afterwards."""
        rows: list[Any] = []
        known: _Sent = {}
        for record in records:
            key = self._key_of(record)
            before = self.sent.get(key)
            if before is not None and before[0] is record:
                known[key] = before
                rows.append(key)
                continue
            values = self._read(record)
            known[key] = record, values
            if before is None:
                rows.append(plain(record, True))
            elif self._is_same(before[1], values):
                rows.append(key)
            else:
                row = {self._key: key}
                for name, old, new in zip(self._names, before[1], values, strict=True):
                    if new is not old and not self._is_same(old, new):
                        row[name] = plain(new, True)
                rows.append(row)
        return rows, known


def _comparison(kind: Any) -> Callable[[Any, Any], bool]:
    """Return how to compare the fields of a record. Only a run has values of any type: its facts and its configuration."""
    return _is_written_alike if kind is Run else operator.eq


def _is_written_alike(old: Any, new: Any) -> bool:
    return bool(old == new) and _has_same_types(old, new)


def _has_same_types(old: Any, new: Any) -> bool:
    """Return whether equal values are also written alike, which 1, 1.0 and True are not, nor 0.0 and -0.0."""
    if old is new:
        return True
    kind = type(old)
    if kind is not type(new):
        return False
    if kind is dict:
        return all(_has_same_types(item, new[name]) for name, item in old.items())
    if kind is tuple or kind is list:
        return all(map(_has_same_types, old, new))
    if kind is float:
        return math.copysign(1.0, old) == math.copysign(1.0, new)
    fields = getattr(kind, "__dataclass_fields__", ())
    return all(_has_same_types(getattr(old, name), getattr(new, name)) for name in fields)


def point_rows(points: Iterable[Points], plain: _Plain) -> list[dict[str, Any]]:
    """Return the points as rows for JSON; ``plain`` is ``encode``, or ``to_plain`` if every number is finite.

    Steps and times that equal those of the points before are left out: a rank logs most of its metrics together.
    """
    steps: Any = None
    times: Any = None
    rows = []
    for item in points:
        if len(item.values) < PACKED_MIN:
            row = plain(item, True)
        else:
            row = {"run_id": item.run_id, "rank": item.rank, "metric": item.metric, "values": packed("d", item.values)}
        if item.times == times and item.steps == steps:
            row = {name: value for name, value in row.items() if name not in ("steps", "times")}
        else:
            steps, times = item.steps, item.times
            if len(item.values) >= PACKED_MIN:
                row |= {"steps": packed("q", steps), "times": packed("d", times)}
        rows.append(row)
    return rows


def packed(kind: str, numbers: Sequence[Any]) -> Any:
    """Return the numbers as base64 of the machine's own integers or doubles; as they are if one is unknown, or too large."""
    try:
        return b2a_base64(array(kind, numbers).tobytes(), newline=False).decode()
    except (OverflowError, TypeError):
        return numbers


def unpacked(kind: str, text: str) -> tuple[Any, ...]:
    """Return the numbers of ``packed``.

    Raises:
        ValueError: it is something else.
    """
    numbers = array(kind)
    numbers.frombytes(a2b_base64(text))
    return tuple(numbers)


class SnapshotReader:
    """Reads the snapshots of one stream."""

    def __init__(self) -> None:
        self._memories: dict[str, _RecordMemory[Any]] = {name: _RecordMemory(kind, key) for name, kind, key in _ROWS}
        self._last: int | None = None

    def read(self, line: str | bytes, levels_max: int | None = None) -> Snapshot:
        """Parse a snapshot. If its origin is unknown, pass ``wire.LEVELS_MAX``.

        Raises:
            FormatError: the line is not a snapshot, its schema is newer, or it continues a line that was not read.
        """
        last, self._last = self._last, None
        data = checked_version(parse_json(line, levels_max))
        since = data.pop(SINCE, None)
        if since is not None and (since != last or isinstance(since, bool)):
            raise FormatError("it continues a line that was not read")
        lists: dict[str, Any] = {
            name: memory.decode(data.pop(name), since is not None) for name, memory in self._memories.items() if name in data
        }
        if "points" in data:
            lists["points"] = points_of(data.pop("points"))
        snapshot = replace(decode(Snapshot, data), **lists)
        self._last = snapshot.sequence
        return snapshot


def points_of(items: Any) -> tuple[Points, ...]:
    """Return the points of rows from JSON: those of ``point_rows``, or complete ones, as ``Snapshot.to_json`` writes them.

    Raises:
        FormatError: they are something else.
    """
    found: list[Points] = []
    numbers_of = _Unpacker()
    try:
        for item in items:
            whole = {name: numbers_of(kind, item[name]) for name, kind in _COLUMNS if isinstance(item.get(name), str)}
            if not whole and ("steps" in item or not found):
                found.append(decode(Points, item))
                continue
            if "steps" not in item and found:
                whole |= {"steps": found[-1].steps, "times": found[-1].times}
            read = _fields_of_points({name: value for name, value in item.items() if name not in whole})
            found.append(Points(**{**read, **whole}))
    except FormatError:
        raise
    except (TypeError, ValueError, AttributeError) as error:
        raise FormatError(f"not points: {error}") from error
    return tuple(found)


_fields_of_points = fields_decoder(Points)


class _Unpacker:
    """Unpacks the columns of one line, equal ones once: ranks that step together have the same steps and learning rates."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], tuple[Any, ...]] = {}

    def __call__(self, kind: str, text: str) -> tuple[Any, ...]:
        """Return the numbers of a packed column.

        Raises:
            ValueError: it is something else.
        """
        numbers = self._known.get((kind, text))
        if numbers is None:
            numbers = self._known[kind, text] = unpacked(kind, text)
        return numbers


class _RecordMemory(Generic[T]):
    """Builds the records of a list that comes again and again; reuses those that have not changed.

    ``key`` names the field that identifies a record.
    """

    def __init__(self, kind: type[T], key: str) -> None:
        self._kind = kind
        self._key = key
        self._convert = fields_decoder(kind)
        self._is_same = _comparison(kind)
        self._known: _Known[T] = {}

    def decode(self, items: Any, changes: bool) -> tuple[T, ...]:
        """Return the records of decoded JSON. With ``changes``, rows may contain only what has changed since the last line.

        Raises:
            FormatError: a required field is missing or has the wrong shape, or a row that should be known is not.
        """
        known, self._known = self._known, {}
        try:
            if changes:
                return tuple([self._continued(row, known) for row in items])
            return tuple([self._record(row, known) for row in items])
        except (TypeError, KeyError, ValueError, AttributeError, OverflowError) as error:
            raise FormatError(f"not a {self._kind.__name__}: {error}") from error

    def _continued(self, row: Any, known: Mapping[Any, tuple[dict[str, Any], dict[str, Any], T]]) -> T:
        if not isinstance(row, dict):
            data, values, record = self._known[row] = known[row]
            return record
        key = row[self._key]
        if key not in known:
            return self._record(row, known)
        data, values, _ = known[key]
        values = values | self._convert(row)
        record = self._kind(**values)
        self._known[key] = data | row, values, record
        return record

    def _record(self, data: dict[str, Any], known: Mapping[Any, tuple[dict[str, Any], dict[str, Any], T]]) -> T:
        before, values, record = known.get(data[self._key]) or (None, {}, None)
        if record is None or not self._is_same(before, data):
            # Lists and objects take the most time, and few of them change.
            fresh = data
            if before is not None and before.keys() == data.keys():
                fresh = {name: item for name, item in data.items() if not self._is_same(before[name], item)}
            else:
                values = {}
            values = values | self._convert(fresh)
            record = self._kind(**values)
        self._known[data[self._key]] = data, values, record
        return record
