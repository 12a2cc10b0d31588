"""The part of a ring's first page in which a rank reports where it is, and how others request a new report.

It has a fixed size and is overwritten, so it costs neither disk nor memory. Others read it while it is written: the version is
odd during a write, and a checksum covers the text. Older versions of gputop leave zeros there and do not read it.

A request sets the ring's time of modification, which its owner and root may do although the file is read-only, and which the
journal's thread checks anyway. An answer repeats that time.
"""

from __future__ import annotations

import json
import os
import struct
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gputop.tracking.journal import format as form
from gputop.wire import FormatError, parse_json

_HEAD = struct.Struct("<qqqqiiII")
TEXT_BYTES = form.STANDING_BYTES - _HEAD.size
SIGNALS = 65
STILL_S = 4.0
"""A rank that has been at one place for this long reports all its groups, and readers pass on where it is."""


@dataclass(frozen=True, slots=True)
class Page:
    """A rank's last report. ``answered_ns``: the latest request that it had seen, as the ring's time of modification.

    ``signal`` and ``descriptor`` are those of ``last_words``, 0 and -1 where there is none; ``thread``: the kernel's id of the
    thread that trains.
    """

    answered_ns: int
    written_ns: int
    """Wall clock, ns since the epoch."""
    thread: int
    signal: int
    descriptor: int
    said: dict[str, Any]


def write(ring: memoryview[int], page: Page, fitting: bytes | None = None) -> bool:
    """Write the page into a ring; return False if its text is longer than ``TEXT_BYTES``. One thread writes.

    ``fitting`` is the text of the report, if it has already been made.
    """
    text = text_of(page.said) if fitting is None else fitting
    if len(text) > TEXT_BYTES:
        return False
    at = form.STANDING_OFFSET
    (version,) = struct.unpack_from("<q", ring, at)
    struct.pack_into("<q", ring, at, version | 1)
    ring[at + _HEAD.size : at + _HEAD.size + len(text)] = text
    _HEAD.pack_into(
        ring,
        at,
        version | 1,
        page.answered_ns,
        page.written_ns,
        page.thread,
        page.signal,
        page.descriptor,
        len(text),
        zlib.crc32(text),
    )
    struct.pack_into("<q", ring, at, (version | 1) + 1)
    return True


def text_of(said: Mapping[str, Any]) -> bytes:
    """Return a rank's report as the page holds it."""
    return json.dumps(said, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")


def parse(raw: bytes) -> Page | None:
    """Return the page that ``STANDING_BYTES`` of a ring hold; None if there is none, or if it is being written."""
    if len(raw) < form.STANDING_BYTES:
        return None
    version, answered_ns, written_ns, thread, signal, fd, size, checksum = _HEAD.unpack_from(raw)
    text = raw[_HEAD.size : _HEAD.size + size]
    if version <= 0 or version % 2 or len(text) < size or zlib.crc32(text) != checksum:
        return None
    try:
        said = parse_json(text)
    except FormatError:
        return None
    if not isinstance(said, dict) or not 0 <= signal < SIGNALS or thread < 0:
        return None
    return Page(answered_ns, written_ns, thread, signal, fd, said)


def ask(ring: Path | int) -> int:
    """Ask a rank to say where it is; return the request's time, which the answer repeats or exceeds.

    ``ring`` is its file, or the descriptor of a file without a name.

    Raises:
        OSError: the ring is gone, or belongs to another user.
    """
    now = time.time_ns()
    if isinstance(ring, int):
        os.utime(ring, ns=(now, now))
        return os.fstat(ring).st_mtime_ns
    os.utime(ring, ns=(now, now), follow_symlinks=False)
    return os.stat(ring, follow_symlinks=False).st_mtime_ns
