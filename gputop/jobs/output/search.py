"""Searches logs of any size, forward and backward, in bounded memory; also reads the lines around an offset.

A search matches lines as a terminal shows them, without escape sequences and after the last carriage return, and ignores case.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gputop.jobs.output.follower import first_whole_line, open_log
from gputop.jobs.output.logs import clean_line

PIECE_BYTES = 1 << 20
"""How much is read at a time."""
PAGE_BYTES = 1 << 16
"""The size of a page, unless the caller says otherwise."""
LINE_BYTES = 1 << 16
"""Only this much of a longer line is searched."""


@dataclass(frozen=True, slots=True)
class Page:
    """Lines of a file. ``start`` and ``end`` are offsets in bytes; ``hit`` is the index of the line that was found."""

    lines: tuple[str, ...]
    start: int
    end: int
    size: int
    hit: int | None = None


def find(path: Path, text: str, start: int, backwards: bool = False, stop: Callable[[], bool] = lambda: False) -> int | None:
    """Return the offset of the nearest line that contains ``text``, from ``start`` on (or before it); None if there is none.

    A file that cannot be read counts as empty. A ``start`` past the end is an offset from before the file was cut: the search
    then begins at 0.

    Args:
        path: the file.
        text: what to find; case does not matter.
        start: an offset in bytes.
        backwards: whether to search towards the beginning.
        stop: called between two pieces; True ends the search.
    """
    wanted = text.casefold()
    raw = text.lower().encode()
    handle = open_log(path)
    if handle is None:
        return None
    try:
        size = os.fstat(handle).st_size
        pieces = _before(handle, min(start, size)) if backwards else _after(handle, start if start <= size else 0, size)
        for offset, data in pieces:
            if stop():
                return None
            found = _in_piece(data, wanted, raw, backwards)
            if found is not None:
                return offset + found
    except OSError:
        return None
    finally:
        os.close(handle)
    return None


def page(path: Path, offset: int, max_bytes: int = PAGE_BYTES, hit: int | None = None) -> Page:
    """Return the lines around ``offset``, half of them before it. ``hit`` is the offset of the line to mark."""
    handle = open_log(path)
    if handle is None:
        return Page((), 0, 0, 0)
    try:
        size = os.fstat(handle).st_size
        begin = max(0, min(offset, size) - max_bytes // 2)
        data = os.pread(handle, max_bytes, begin)
    except OSError:
        return Page((), 0, 0, 0)
    finally:
        os.close(handle)
    if begin:
        skipped = first_whole_line(data)
        begin, data = begin + skipped, data[skipped:]
    if begin + len(data) < size and b"\n" in data:
        data = data[: data.rfind(b"\n") + 1]
    pointed = data.count(b"\n", 0, max(0, hit - begin)) if hit is not None and begin <= hit < begin + len(data) else None
    lines = data.split(b"\n")
    if lines and not lines[-1]:
        lines.pop()
    return Page(tuple(map(clean_line, lines)), begin, begin + len(data), size, pointed)


def _after(handle: int, start: int, size: int) -> Iterator[tuple[int, bytes]]:
    """Yield pieces of whole lines from ``start`` on."""
    offset = start
    while offset < size:
        data = os.pread(handle, PIECE_BYTES, offset)
        if not data:
            return
        whole = data.rfind(b"\n") + 1
        if offset + len(data) >= size or not whole:
            whole = len(data)
        yield offset, data[:whole]
        offset += whole


def _before(handle: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield pieces of whole lines before ``end``, the last one first."""
    while end > 0:
        begin = max(0, end - PIECE_BYTES)
        data = os.pread(handle, end - begin, begin)
        skipped = data.find(b"\n") + 1 if begin else 0
        if skipped >= len(data):
            skipped = 0
        yield begin + skipped, data[skipped:]
        end = begin + skipped
        if not skipped and begin:
            end = begin


def _in_piece(data: bytes, wanted: str, raw: bytes, backwards: bool) -> int | None:
    lowered = data.lower()
    # Most pieces contain no match, and this test is fast. Escapes and non-ASCII text need the slow way, line by line.
    if raw.isascii() and raw not in lowered and b"\x1b" not in data:
        return None
    found: int | None = None
    offset = 0
    for line in data.split(b"\n"):
        if wanted in clean_line(line[:LINE_BYTES]).casefold():
            if not backwards:
                return offset
            found = offset
        offset += len(line) + 1
    return found
