"""Finds symbols of the Python interpreter in a process: in the dynamic symbol table of its program or of libpython.

Reads files of the process only. What another version or architecture brings, or a damaged file, is not found.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

_INTERPRETER = re.compile(r"/(?:lib)?python3\.(\d+)[^/]*$")
_MAPPED = re.compile(r"^([0-9a-f]+)-[0-9a-f]+ \S+ ([0-9a-f]+) \S+ \d+ +(/.*)$")
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_MAGIC_64_LITTLE = b"\x7fELF\x02\x01"
_LOADED = 1
_DYNAMIC_SYMBOLS = 11
_TABLE_MAX_BYTES = 2**24
"""A larger table of symbols is not one of Python's."""
_SECTIONS_MAX = 256


class Interpreter(NamedTuple):
    """The Python of a process: its minor version, and where its symbols are in the memory of the process."""

    minor: int
    addresses: Mapping[str, int]


_Identity = tuple[int, int, int, int]
_known: dict[_Identity, Mapping[str, int] | None] = {}
"""Symbols of the files looked at so far, relative to where a file is loaded: few Pythons run on one machine."""
_KNOWN_MAX = 64


def find(pid: int, wanted: Collection[str]) -> Interpreter | None:
    """Return the interpreter of a process with all ``wanted`` symbols; None if it is not a Python, or not one that shows them.

    Raises:
        OSError: the process is gone, or another user's.
    """
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as maps:
        loaded = _first_mappings(maps)
    for path, base in loaded.items():
        found = _INTERPRETER.search(path)
        if found is None:
            continue
        symbols = symbols_of(f"/proc/{pid}/root{path}", wanted)
        if symbols is not None:
            return Interpreter(int(found[1]), {name: base + value for name, value in symbols.items()})
    return None


def _first_mappings(maps: Iterable[str]) -> dict[str, int]:
    """Return where the files of interpreters begin in memory, by their paths."""
    found: dict[str, int] = {}
    for line in maps:
        match = _MAPPED.match(line) if "python3." in line else None
        if match is not None and int(match[2], 16) == 0:
            found.setdefault(match[3].rstrip("\n"), int(match[1], 16))
    return found


def symbols_of(path: str, wanted: Collection[str]) -> Mapping[str, int] | None:
    """Return the ``wanted`` symbols of a program's file, relative to where it is loaded; None unless it has them all."""
    try:
        with open(path, "rb") as file:
            about = os.fstat(file.fileno())
            identity = (about.st_dev, about.st_ino, about.st_size, about.st_mtime_ns)
            if identity not in _known:
                if len(_known) >= _KNOWN_MAX:
                    _known.clear()
                _known[identity] = _read_symbols(file.fileno(), wanted)
            return _known[identity]
    except (OSError, struct.error, ValueError):
        return None


def _read_symbols(file: int, wanted: Collection[str]) -> Mapping[str, int] | None:
    header = _HEADER.unpack(os.pread(file, _HEADER.size, 0))
    if not header[0].startswith(_MAGIC_64_LITTLE):
        return None
    segments_at, sections_at, segments, sections = header[5], header[6], header[10], header[12]
    if not 0 < sections <= _SECTIONS_MAX or not 0 < segments <= _SECTIONS_MAX:
        return None
    first = _first_address(os.pread(file, segments * _SEGMENT.size, segments_at))
    table = [*_SECTION.iter_unpack(os.pread(file, sections * _SECTION.size, sections_at))]
    for section in table:
        if section[1] == _DYNAMIC_SYMBOLS and section[6] < len(table):
            names = table[section[6]]
            if max(section[5], names[5]) > _TABLE_MAX_BYTES:
                return None
            symbols = os.pread(file, section[5], section[4])
            found = _look_up(symbols, os.pread(file, names[5], names[4]), wanted)
            return {name: value - first for name, value in found.items()} if len(found) == len(wanted) else None
    return None


def _first_address(segments: bytes) -> int:
    """Return the address that the file's first loaded page was linked for; 0 unless it must be loaded at a fixed address."""
    return min((item[3] - item[2] for item in _SEGMENT.iter_unpack(segments) if item[0] == _LOADED), default=0)


def _look_up(symbols: bytes, names: bytes, wanted: Collection[str]) -> dict[str, int]:
    places = {names.find(b"\0" + name.encode() + b"\0") + 1: name for name in wanted}
    return {places[item[0]]: item[4] for item in _SYMBOL.iter_unpack(symbols) if item[0] in places and item[0] and item[4]}
