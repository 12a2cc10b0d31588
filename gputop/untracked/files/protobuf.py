"""The wire format of protocol buffers: a message as numbered fields. Reads any bytes; stops where they are damaged."""

from __future__ import annotations

from collections.abc import Iterator

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
"""Wire types (protobuf.dev, "Encoding")."""
_VARINT_BYTES = 10
"""The longest varint: 64 bits, seven in each byte."""


def fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield (number, content) of each field: an int for a varint, the raw bytes for the other kinds."""
    at, size = 0, len(data)
    while at < size:
        key = data[at]
        if key < 0x80:  # most keys and lengths are one byte
            at += 1
        else:
            key, at = _varint(data, at)
        kind = key & 7
        if kind == _VARINT:
            found, at = _varint(data, at)
            if at > size:
                return
            yield key >> 3, found
            continue
        if kind == _BYTES:
            length, at = (data[at], at + 1) if at < size and data[at] < 0x80 else _varint(data, at)
        elif kind == _FIXED64:
            length = 8
        elif kind == _FIXED32:
            length = 4
        else:  # groups, which nothing writes any more, and damage
            return
        if at + length > size:
            return
        yield key >> 3, data[at : at + length]
        at += length


def signed(value: int) -> int:
    """Return a varint as the int64 that it encodes."""
    return value - (1 << 64) if value >= 1 << 63 else value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a varint and where it ends: beyond the data if it is cut off or too long."""
    value = shift = 0
    for index in range(at, min(len(data), at + _VARINT_BYTES)):
        byte = data[index]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, index + 1
        shift += 7
    return 0, len(data) + 1
