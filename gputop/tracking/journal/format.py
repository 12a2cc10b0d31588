"""The journal's format: what one rank writes, byte for byte. Only the modules of this package know it.

One rank writes one *stream* of records, which is stored in two files:

* the **ring**, on tmpfs: the last ``capacity`` bytes of the stream. ``log()`` packs a record into memory of the same layout,
  and the kernel copies it, and then the new end (``W_HEAD``), to the file (``mapping``). gputop takes no lock; the kernel takes
  the process's memory map for reading, and so waits while another thread changes the map (mmap, munmap).
* the **archive**, on a local disk: byte ``p`` of the stream is at offset ``HEADER_BYTES + p`` of the file. A thread of the
  training process copies the ring's bytes there, unparsed, every half second. Bytes that never reached it are a hole
  of zeros. Positions are the same in both files, so a reader joins them by position, and any process may copy the rest
  of a dead process's ring into its archive (``read.salvage``): the result is the same, whichever process copies.

Without a tmpfs (or with ``GPUTOP_THREAD=0``) there is no ring: each record is one ``pwrite`` to the archive.

Layout, little-endian, 8-byte aligned:

* header, ``HEADER_BYTES``: magic, version, sizes; *live words* (64-bit, one writer); the writer (``Identity``); the
  path of the other file. Both files start with the same header; the archive's live words are written at state changes.
  The ring's last ``STANDING_BYTES`` of it say where the rank is now (``tracking/standing/page.py``).
* ring only, ``AREA_BYTES``: JSON lines with the card and the names of each schema, for a reader without an archive.
* data. A record is ``u16 kind, u16 schema, u32 size`` (the size includes this head, a multiple of 8) and, except for padding,
  ``i64 step, i64 time`` (CLOCK_MONOTONIC, ns: one clock for all ranks of a host), then ``n`` doubles (scalars) or JSON
  padded with spaces. No record crosses a multiple of ``SEGMENT_BYTES``; padding fills the gap. So a reader that was
  overtaken, or that met a hole or damage, resumes at the next segment.

What each kind of failure costs:

* exception, ``sys.exit``, kill -9, out-of-memory killer: nothing for which ``log()`` returned, if there is a ring (the
  ring outlives the process); a half-written record is never visible. Automatic tracking writes the steps of 30 to
  80 ms together: a kill loses those of the last 80 ms; an exception or an exit does not.
* machine crash: at most the last half second (more if the disk reports writes too early: nothing is fsynced).
* full or failing disk: what leaves the ring after that; the live view continues, and ``W_ARCHIVE`` reads "stopped".
* a writer that outruns the disk by more than a ring: whole segments, visible as holes and counted in ``W_DROPPED``.
* the ring's file is truncated, which by accident only root can do: nothing at first; a later kill -9 then loses half a
  second.
* the ring's file is removed (``RemoveIPC``): nothing at first; a later kill -9 then loses half a second.

A reader uses ``pread`` (a mapping would die of SIGBUS if the file were truncated) and trusts no number in a file.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from gputop.wire import FormatError

MAGIC = b"GPUTOPJ1"
MAJOR, MINOR = 1, 0
RING, ARCHIVE = 1, 2

HEADER_BYTES = 4096
AREA_BYTES = 61_440
RING_DATA_OFFSET = HEADER_BYTES + AREA_BYTES
SEGMENT_BYTES = 65_536
RING_BYTES = 1 << 20
RING_BYTES_MIN = 4 * SEGMENT_BYTES
RING_BYTES_MAX = 1 << 26

# Live words, as indices of 64-bit words from the start of the file.
W_HEAD, W_AREA_END, W_FLUSHED, W_DROPPED, W_ERRORS, W_STATE, W_EXIT_CODE, W_ARCHIVE = range(8, 16)
LIVE_WORDS = struct.Struct("<8q")
LIVE_OFFSET = 64
END_WORDS = struct.Struct("<3q")
"""The last of the live words: state, exit code, and whether the archive is good."""
END_OFFSET = LIVE_OFFSET + LIVE_WORDS.size - END_WORDS.size
NO_EXIT_CODE = -(2**31)
SIGINT_EXIT_CODE = 130
"""The exit code after Ctrl-C, as shells report it."""

PHASE = "phase/"
"""Prefix of metrics that time a part of a step: logging one does not count as a step."""

STATES = ("starting", "running", "finished", "failed")
STARTING, RUNNING, FINISHED, FAILED = range(4)
ARCHIVE_NONE, ARCHIVE_GOOD, ARCHIVE_STOPPED, ARCHIVE_TAKEN_OVER = range(4)
"""The last: the process has ended, and a reader has copied what was left in its ring."""

PADDING, SCALARS, SCHEMA, TEXT, EVENT = range(5)
KINDS = 16
"""Kinds below this are records, including those that only a later version knows; a larger number is damage."""
RECORD_HEAD = struct.Struct("<HHIqq")
PADDING_HEAD = struct.Struct("<HHI")
NAMES_PER_RECORD = 256
NAME_CHARACTERS = 200
JSON_BYTES = 32_000
"""The longest JSON in one record; two fit into a segment."""
SCHEMAS = 65_279
SCHEMAS_OF_ONE = 4096
"""How many of them are reserved for single names, in case there are too many sets."""
AUTOMATIC_SCHEMAS_FROM, AUTOMATIC_SCHEMAS = 65_279, 256
"""The numbers of sets of automatic names: so a record shows whose step it carries, even to a reader without the names."""

_JSON_BYTES_MAX = 2 * JSON_BYTES - RECORD_HEAD.size - 8
_FIXED = struct.Struct("<8sHHIQQII")
_IDENTITY = struct.Struct("<10q")
_IDENTITY_OFFSET = 256
_FILE_NAME = re.compile(r"[^/\0]+")
_STRINGS = ((384, 40), (424, 72), (496, 72), (1024, 2048))
"""Offset and size in bytes of: boot id, run id, host name, path of the other file."""
STANDING_OFFSET, STANDING_BYTES = 3072, 1024


@dataclass(frozen=True, slots=True)
class Identity:
    """The writer of a journal. ``start_ticks`` is field 22 of /proc/<pid>/stat; with the boot id it makes a PID unique."""

    run_id: str
    rank: int
    local_rank: int | None
    world_size: int | None
    restart_count: int
    attempt: int
    pid: int
    """0 if unknown: an imported run."""
    start_ticks: int
    pid_namespace: int
    uid: int
    boot_id: str
    hostname: str
    created_ns: int
    """Wall clock, ns since the epoch."""


@dataclass(frozen=True, slots=True)
class Live:
    """The words that change while a rank writes."""

    head: int
    area_end: int
    flushed: int
    dropped: int
    errors: int
    state: int
    exit_code: int | None
    archive: int


@dataclass(frozen=True, slots=True)
class Header:
    """The first page of a file, validated."""

    part: int
    data_offset: int
    capacity: int
    """Bytes of the stream that a ring holds; 0 in an archive."""
    identity: Identity
    partner: str
    """Path of the other file; "" if there is none."""


def pack_header(part: int, capacity: int, identity: Identity, partner: str) -> bytearray:
    """Return the first page of a new file.

    Raises:
        FormatError: a text of ``identity``, or the path ``partner``, is too long.
    """
    page = bytearray(HEADER_BYTES)
    data_offset = RING_DATA_OFFSET if part == RING else HEADER_BYTES
    _FIXED.pack_into(page, 0, MAGIC, MAJOR, MINOR, HEADER_BYTES, data_offset, capacity, SEGMENT_BYTES, part)
    LIVE_WORDS.pack_into(page, LIVE_OFFSET, 0, 0, 0, 0, 0, STARTING, NO_EXIT_CODE, ARCHIVE_NONE)
    _IDENTITY.pack_into(
        page,
        _IDENTITY_OFFSET,
        identity.pid,
        identity.start_ticks,
        identity.pid_namespace,
        identity.uid,
        identity.rank,
        -1 if identity.local_rank is None else identity.local_rank,
        -1 if identity.world_size is None else identity.world_size,
        identity.restart_count,
        identity.attempt,
        identity.created_ns,
    )
    texts = (identity.boot_id, identity.run_id, identity.hostname, partner)
    for (offset, size), text in zip(_STRINGS, texts, strict=True):
        raw = text.encode("utf-8", "surrogateescape")
        if len(raw) > size:
            raise FormatError(f"{text[:60]!r} does not fit into the journal's header ({size} bytes)")
        page[offset : offset + len(raw)] = raw
    return page


def unpack_header(page: bytes) -> Header:
    """Parse the first page of a file.

    Raises:
        FormatError: it is no journal, has a newer major version, or has impossible sizes.
    """
    if len(page) < HEADER_BYTES:
        raise FormatError("shorter than a journal's header")
    magic, major, _, header_bytes, data_offset, capacity, segment, part = _FIXED.unpack_from(page)
    if magic != MAGIC:
        raise FormatError("not a journal of gputop")
    if major > MAJOR:
        raise FormatError(f"written by a newer gputop (journal version {major}; this one reads {MAJOR})")
    if header_bytes != HEADER_BYTES or segment != SEGMENT_BYTES:
        raise FormatError("damaged header: impossible sizes")
    if part == RING:
        sound = (
            data_offset == RING_DATA_OFFSET and RING_BYTES_MIN <= capacity <= RING_BYTES_MAX and not capacity % SEGMENT_BYTES
        )
    else:
        sound = part == ARCHIVE and data_offset == HEADER_BYTES and capacity == 0
    if not sound:
        raise FormatError("damaged header: impossible sizes")
    numbers = _IDENTITY.unpack_from(page, _IDENTITY_OFFSET)
    texts = [page[offset : offset + size].rstrip(b"\0").decode("utf-8", "replace") for offset, size in _STRINGS]
    pid, start_ticks, namespace, uid, rank, local_rank, world_size, restarts, attempt, created_ns = numbers
    if not _FILE_NAME.fullmatch(texts[1]) or not 0 <= rank < 2**31 or not 0 <= attempt < 2**31 or pid < 0:
        raise FormatError("damaged header: no run or rank")
    identity = Identity(
        run_id=texts[1],
        rank=rank,
        local_rank=None if local_rank < 0 else local_rank,
        world_size=None if world_size < 0 else world_size,
        restart_count=restarts,
        attempt=attempt,
        pid=pid,
        start_ticks=start_ticks,
        pid_namespace=namespace,
        uid=uid,
        boot_id=texts[0],
        hostname=texts[2],
        created_ns=created_ns,
    )
    # A damaged path affects only the other file.
    return Header(part, data_offset, capacity, identity, "" if "\0" in texts[3] else texts[3])


def unpack_live(page: bytes, offset: int = LIVE_OFFSET) -> Live:
    """Parse the live words.

    Raises:
        FormatError: their values are impossible.
    """
    if len(page) < offset + LIVE_WORDS.size:
        raise FormatError("shorter than a journal's header")
    head, area_end, flushed, dropped, errors, state, exit_code, archive = LIVE_WORDS.unpack_from(page, offset)
    if head < 0 or head % 8 or not 0 <= area_end <= AREA_BYTES or not 0 <= flushed <= head:
        raise FormatError("damaged header: impossible positions")
    if not 0 <= state < len(STATES):
        raise FormatError(f"its state {state} is none that this gputop knows: a newer one wrote it, or it is damaged")
    return Live(head, area_end, flushed, dropped, errors, state, None if exit_code == NO_EXIT_CODE else exit_code, archive)


def scalars_word(schema: int, count: int) -> int:
    """Pack kind, schema and size of a scalars record into its first 64-bit word."""
    return SCALARS | schema << 16 | (RECORD_HEAD.size + 8 * count) << 32


def names_of(names: Iterable[str]) -> list[str]:
    """Return the names as a schema's record holds them."""
    return [name[:NAME_CHARACTERS] for name in names]


def names_fit(names: Iterable[str]) -> bool:
    """Return whether the names fit into one schema's record."""
    return len(_json(names_of(names))) <= _JSON_BYTES_MAX


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")


def pack_json(kind: int, schema: int, step: int, time_ns: int, value: Any) -> bytes:
    """Return a record that carries JSON.

    Raises:
        ValueError, TypeError: the value has no JSON form, or its JSON is longer than a record holds.
    """
    body = _json(value)
    if len(body) > _JSON_BYTES_MAX:
        raise ValueError(f"{len(body)} bytes of JSON are more than a record holds")
    body += b" " * (-len(body) % 8)
    return RECORD_HEAD.pack(kind, schema, RECORD_HEAD.size + len(body), step, time_ns) + body


def with_attempt(identity: Identity, attempt: int) -> Identity:
    """Return the same writer, for its ``attempt``-th journal of this run and rank."""
    return replace(identity, attempt=attempt)


def file_stem(rank: int, attempt: int) -> str:
    """Return the name of a rank's files without suffix: "rank-00003", and "rank-00003-1" after a restart."""
    return f"rank-{rank:05d}" + (f"-{attempt}" if attempt else "")
