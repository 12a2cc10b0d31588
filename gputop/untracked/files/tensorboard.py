"""TensorBoard's event files: records in TFRecord format, each of which holds one ``Event`` as a protocol buffer.

A record is its length (8 bytes), a checksum of the length, the event, and a checksum of the event. The length's checksum shows
where a record begins, so reading can resume after damage or in the middle of a file. Scalars are ``simple_value``s, or tensors
of one number.
"""

from __future__ import annotations

import re
import struct
from functools import cache

from gputop.untracked.files.protobuf import fields, signed
from gputop.untracked.files.values import Value, metric_name, wall_time

RECORD_BYTES = 4 << 20
"""A longer record holds images or a graph, and is skipped."""
_HEAD = struct.Struct("<QI")
_CHECKSUM_BYTES = 4
_MAYBE_HEAD = re.compile(rb"(?!\0\0\0)[\s\S]{3}\0{5}")
_DOUBLE, _FLOAT = struct.Struct("<d"), struct.Struct("<f")
_NAMES_KEPT = 4096
"""How many tags to keep with their names, which saves decoding each of them in every event."""

# Field numbers of tensorboard/compat/proto: event.proto, summary.proto, tensor.proto and types.proto.
_EVENT_TIME, _EVENT_STEP, _EVENT_SUMMARY, _SUMMARY_VALUE = 1, 2, 5, 1
_TAG, _SIMPLE_VALUE, _TENSOR = 1, 2, 8
_DTYPE, _SHAPE, _CONTENT = 1, 2, 4
_NUMBERS = {1: ("<f", 5), 2: ("<d", 6), 3: ("<i", 7), 9: ("<q", 10), 19: ("<e", 13)}
"""Type of a tensor -> how one of its numbers is packed, and the field that holds it if ``tensor_content`` does not."""
_HALF = 19
"""float16, whose field ``half_val`` holds the bits of a number as an integer."""
_VARINTS = (7, 10, 13)
"""The fields of ``_NUMBERS`` that hold varints: ``int_val``, ``int64_val`` and ``half_val``."""


class EventFile:
    """Reads an event file; a ``Parser`` (``values``)."""

    def __init__(self) -> None:
        self.refused = False
        self._rest = b""
        self._passing_over = 0
        """Bytes of a record that is too long."""
        self._names: dict[bytes, str | None] = {}

    def feed(self, data: bytes) -> list[Value]:
        """Return the scalars of the events that are complete now."""
        if self._passing_over:
            passed = min(self._passing_over, len(data))
            self._passing_over -= passed
            data = data[passed:]
        data, at = self._rest + data, 0
        found: list[Value] = []
        while len(data) - at >= _HEAD.size:
            length, checksum = _HEAD.unpack_from(data, at)
            if _masked_crc(data[at : at + 8]) != checksum:
                at = _next_head(data, at + 1)
                continue
            end = at + _HEAD.size + length + _CHECKSUM_BYTES
            if length > RECORD_BYTES:
                self._passing_over = max(0, end - len(data))
                at = min(end, len(data))
                continue
            if end > len(data):
                break
            found += self._event(data[at + _HEAD.size : end - _CHECKSUM_BYTES])
            at = end
        self._rest = data[at:]
        return found

    def skip(self, number: int) -> None:
        """Skip bytes: the next record is found by the checksum of its length."""
        self._rest, self._passing_over = b"", max(0, self._passing_over - number)

    def end(self) -> list[Value]:
        """Return nothing: an unfinished record holds no value."""
        return []

    def _event(self, data: bytes) -> list[Value]:
        at, step, summaries = 0.0, 0, []
        for number, content in fields(data):
            if number == _EVENT_TIME and isinstance(content, bytes) and len(content) == _DOUBLE.size:
                (at,) = _DOUBLE.unpack(content)
            elif number == _EVENT_STEP and isinstance(content, int):
                step = signed(content)
            elif number == _EVENT_SUMMARY and isinstance(content, bytes):
                summaries.append(content)
        if not summaries or not 0 <= step < 1 << 53:
            return []
        time = wall_time(at)
        found = []
        for summary in summaries:
            for number, content in fields(summary):
                if number == _SUMMARY_VALUE and isinstance(content, bytes):
                    tag, value = _scalar(content)
                    name = self._name(tag) if value is not None else None
                    if name is not None and value is not None:
                        found.append(Value(name, step, time, value))
        return found

    def _name(self, tag: bytes) -> str | None:
        if tag not in self._names:
            if len(self._names) >= _NAMES_KEPT:
                self._names.clear()
            self._names[tag] = metric_name(tag[:1000].decode("utf-8", "replace"))
        return self._names[tag]


def _scalar(data: bytes) -> tuple[bytes, float | None]:
    tag, value = b"", None
    for number, content in fields(data):
        if not isinstance(content, bytes):
            continue
        if number == _TAG:
            tag = content
        elif number == _SIMPLE_VALUE and len(content) == _FLOAT.size:
            (value,) = _FLOAT.unpack(content)
        elif number == _TENSOR:
            value = _tensor(content)
    return tag, value


def _tensor(data: bytes) -> float | None:
    """Return the number of a tensor without dimensions; None for other tensors."""
    held = {}
    for number, content in fields(data):
        if number in held:
            return None
        held[number] = content
    kind = held.get(_DTYPE)
    how = _NUMBERS.get(kind) if isinstance(kind, int) else None
    if how is None or held.get(_SHAPE, b"") != b"":
        return None
    form, field = how
    raw = held.get(_CONTENT) or held.get(field)
    if isinstance(raw, bytes) and field in _VARINTS and _CONTENT not in held:  # packed
        raw = next((content for _, content in fields(b"\x08" + raw)), None)
    if isinstance(raw, int):
        if kind != _HALF:
            return float(signed(raw))
        raw = struct.pack("<H", raw & 0xFFFF)
    if not isinstance(raw, bytes) or len(raw) != struct.calcsize(form):
        return None
    return float(struct.unpack(form, raw)[0])


def _next_head(data: bytes, at: int) -> int:
    """Return where the next record may begin: at a length and its checksum, else just before the end of the data."""
    while (found := _MAYBE_HEAD.search(data, at)) is not None:
        at = found.start()
        if len(data) - at < _HEAD.size:
            return at
        length, checksum = _HEAD.unpack_from(data, at)
        if length <= RECORD_BYTES and _masked_crc(data[at : at + 8]) == checksum:
            return at
        at += 1
    return max(at, len(data) - 7)


@cache
def _crc_table() -> tuple[int, ...]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return tuple(table)


def _masked_crc(data: bytes) -> int:
    """Return TFRecord's checksum: CRC-32C, rotated and shifted."""
    table, crc = _crc_table(), 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
