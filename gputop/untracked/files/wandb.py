"""W&B's run files (``run-ID.wandb``), from offline and online runs: LevelDB's log format, with protocol buffers as records.

The file is divided into blocks of 32 KiB. A piece is a checksum (4 bytes), a length (2), a kind (1) and its data; a record is
one piece, or several over neighboring blocks. After damage, or in the middle of a file, reading resumes at the next block.
Values are ``HistoryRecord``s: names with a JSON value each. ``RunRecord`` and ``ConfigRecord`` hold the run's name and
configuration.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from gputop.untracked.files.protobuf import fields
from gputop.untracked.files.values import Value, metric_name, number, step_number, wall_time
from gputop.wire import FormatError, parse_json

BLOCK_BYTES = 32 << 10
RECORD_BYTES = 4 << 20
"""A longer record is not history, and is skipped."""
_HEAD = struct.Struct("<IHB")
_START = b":W&B\xe1\xbe\x00"
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
"""The kinds of a piece."""
# Field numbers of wandb/proto/wandb_internal.proto.
_HISTORY, _ITEM, _STEP, _STEP_NUMBER = 2, 1, 2, 1
_KEY, _NESTED_KEY, _VALUE_JSON = 1, 2, 16
_CONFIG, _RUN, _RUN_CONFIG, _RUN_NAME, _UPDATE = 5, 17, 4, 8, 1
_CONFIG_JSON_BYTES, _CONFIG_KEYS = 10_000, 1000
_JSON_BYTES = 64
"""The longest number; longer values are texts, tables and images."""


class RunFile:
    """Reads a W&B run file; a ``Parser`` (``values``)."""

    def __init__(self) -> None:
        self._rest = b""
        self._position = 0
        """Where ``_rest`` begins in the file."""
        self._record: bytearray | None = None
        """The pieces so far of a record that has several."""
        self.refused = False
        self.name: str | None = None
        self.config: dict[str, bytes] = {}
        """Key -> JSON, as read so far."""
        self._to_drop = 0
        """Bytes up to the next block, where reading resumes."""

    def feed(self, data: bytes) -> list[Value]:
        """Return the values of the history records that are complete now."""
        if self.refused:
            return []
        self._rest += data
        return [value for record in self._records() for value in self._values(record)]

    def _values(self, record: bytes) -> list[Value]:
        for field, content in fields(record):
            if field == _HISTORY:
                return _history(record)
            if field == _RUN and isinstance(content, bytes):
                for part, inner in fields(content):
                    if part == _RUN_NAME and isinstance(inner, bytes):
                        self.name = inner[:1000].decode("utf-8", "replace")
                    elif part == _RUN_CONFIG and isinstance(inner, bytes):
                        self._configure(inner)
            elif field == _CONFIG and isinstance(content, bytes):
                self._configure(content)
        return []

    def _configure(self, record: bytes) -> None:
        for field, content in fields(record):
            if field == _UPDATE and isinstance(content, bytes):
                key, text = _item(content, _CONFIG_JSON_BYTES)
                if text is not None and (key in self.config or len(self.config) < _CONFIG_KEYS):
                    self.config[key] = text

    def skip(self, number: int) -> None:
        """Skip bytes: reading resumes at the next block."""
        self._position += len(self._rest) + number
        self._rest, self._record, self._to_drop = b"", None, -self._position % BLOCK_BYTES

    def end(self) -> list[Value]:
        """Return nothing: an unfinished record holds no value."""
        return []

    def _records(self) -> Iterator[bytes]:
        data, at = self._rest, 0
        try:
            while True:
                dropped = min(self._to_drop, len(data) - at)
                at, self._to_drop = at + dropped, self._to_drop - dropped
                if len(data) - at < _HEAD.size:
                    return
                left = BLOCK_BYTES - (self._position + at) % BLOCK_BYTES
                if left < _HEAD.size:
                    self._to_drop = left
                    continue
                if self._position + at == 0:
                    if data[: len(_START)] != _START:
                        self.refused = True
                        return
                    at += len(_START)
                    continue
                _, length, kind = _HEAD.unpack_from(data, at)
                if not _FULL <= kind <= _LAST or length > left - _HEAD.size:
                    self._record, self._to_drop = None, left
                    continue
                end = at + _HEAD.size + length
                if end > len(data):
                    return
                record = self._joined(kind, data[at + _HEAD.size : end])
                at = end
                if record is not None:
                    yield record
        finally:
            self._position += at
            self._rest = data[at:]

    def _joined(self, kind: int, piece: bytes) -> bytes | None:
        """Return a record if this piece completes it."""
        if kind in (_FULL, _FIRST):
            self._record = bytearray(piece) if kind == _FIRST else None
            return piece if kind == _FULL else None
        if self._record is None:
            return None
        self._record += piece
        if len(self._record) > RECORD_BYTES:
            self._record = None
            return None
        if kind == _MIDDLE:
            return None
        record, self._record = bytes(self._record), None
        return record


def _history(record: bytes) -> list[Value]:
    items: list[tuple[str, float]] = []
    step, at = None, None
    for field, content in fields(record):
        if field != _HISTORY or not isinstance(content, bytes):
            continue
        for part, inner in fields(content):
            if not isinstance(inner, bytes):
                continue
            if part == _STEP:
                step = next((step_number(found) for key, found in fields(inner) if key == _STEP_NUMBER), 0)
            elif part == _ITEM:
                key, text = _item(inner, _JSON_BYTES)
                value = _number(text)
                if key == "_step":
                    step = step_number(value) if step is None else step
                elif key == "_timestamp":
                    at = wall_time(value)
                elif value is not None and not key.startswith("_") and (name := metric_name(key)) is not None:
                    items.append((name, value))
    return [Value(name, step, at, value) for name, value in items] if step is not None else []


def _item(data: bytes, bytes_max: int) -> tuple[str, bytes | None]:
    """Return the key and the JSON of a history's or configuration's item; None if it is longer than ``bytes_max``."""
    keys: list[bytes] = []
    text = None
    for field, content in fields(data):
        if not isinstance(content, bytes):
            continue
        if field in (_KEY, _NESTED_KEY):
            keys.append(content[:1000])
        elif field == _VALUE_JSON and len(content) <= bytes_max:
            text = content
    return b".".join(keys[:10]).decode("utf-8", "replace"), text


def _number(text: bytes | None) -> float | None:
    try:
        return None if text is None else number(parse_json(text))
    except (FormatError, UnicodeDecodeError):
        return None
