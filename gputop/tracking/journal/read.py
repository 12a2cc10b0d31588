"""Reads one rank's journal, live or long after it ended: first the archive, then the rest of the ring.

Files are untrusted: every number is checked, damage loses only the rest of its segment, and reading raises nothing but
``FormatError`` and ``OSError``. Files are read with ``pread``, never mapped.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from gputop.tracking.journal import format as form
from gputop.wire import FormatError, parse_json

CHUNK_BYTES = 16 * form.SEGMENT_BYTES
GALLOP = 8
"""How many records are compared at once after the first two have the same shape; doubles while they match."""


class Sink(Protocol):
    """Receives a journal's records, in order."""

    def scalars(
        self, names: Sequence[str], steps: Sequence[int], times_ns: Sequence[int], columns: Sequence[Sequence[float]]
    ) -> None:
        """Receive records of one shape: a column of values for each name."""

    def event(self, kind: int, step: int, time_ns: int, value: Any) -> None:
        """Receive a text or an event."""


def open_checked(path: Path) -> int:
    """Open a file of this user for reading.

    Raises:
        OSError: it is gone, is a link, is not a regular file, or belongs to another user.
    """
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        os.close(fd)
        raise PermissionError(1, "not a file of this user", str(path))
    return fd


class JournalReader:
    """Follows one journal. ``poll`` passes on new records and returns how many bytes they took."""

    def __init__(self, archive: Path | None, ring: Path | None = None) -> None:
        """Open the files that exist.

        Raises:
            OSError: neither file can be read.
            FormatError: it is no journal, or one of a newer version.
        """
        self._archive = self._ring = -1
        self._path = archive
        self._names: dict[int, tuple[str, ...]] = {}
        self.position = 0
        self.damaged = 0
        """Segments cut short by damage or holes."""
        try:
            if archive is not None:
                self._archive = open_checked(archive)
                self.header = form.unpack_header(os.pread(self._archive, form.HEADER_BYTES, 0))
                ring = Path(self.header.partner) if self.header.partner else None
            if ring is not None:
                self._open_ring(ring, only_ring=archive is None)
        except BaseException:
            self.close()
            raise
        self.live = self._read_live()

    def _open_ring(self, ring: Path, only_ring: bool) -> None:
        try:
            self._ring = open_checked(ring)
            header = form.unpack_header(os.pread(self._ring, form.HEADER_BYTES, 0))
            if header.part != form.RING or not (only_ring or header.identity == self.header.identity):
                raise FormatError("not this journal's ring")
        except (OSError, FormatError):
            if self._ring >= 0:
                os.close(self._ring)
                self._ring = -1
            if only_ring:
                raise
            return
        self._ring_header = header
        if only_ring:
            self.header = header

    def reopen(self) -> None:
        """Open the archive again if its file server has forgotten the descriptor.

        Raises:
            OSError: it cannot be opened.
            FormatError: it is another journal now.
        """
        if self._path is None:
            return
        fd = open_checked(self._path)
        try:
            if form.unpack_header(os.pread(fd, form.HEADER_BYTES, 0)).identity != self.header.identity:
                raise FormatError("another journal")
        except BaseException:
            os.close(fd)
            raise
        old, self._archive = self._archive, fd
        with suppress(OSError):  # a file server may report its error here; the descriptor is closed anyway
            os.close(old)

    @property
    def has_ring(self) -> bool:
        """Whether the ring (still) exists."""
        return self._ring >= 0

    def close(self) -> None:
        """Close the files."""
        for fd in (self._archive, self._ring):
            if fd >= 0:
                os.close(fd)
        self._archive = self._ring = -1

    def _read_live(self) -> form.Live:
        fd = self._ring if self._ring >= 0 else self._archive
        return form.unpack_live(os.pread(fd, form.LIVE_WORDS.size, form.LIVE_OFFSET), 0)

    def first_page(self, offset: int, size: int) -> bytes:
        """Return a part of the ring's first page; nothing where there is no ring.

        Raises:
            OSError: the file cannot be read.
        """
        return os.pread(self._ring, size, offset) if self._ring >= 0 else b""

    def poll(self, sink: Sink, budget: int = 1 << 62) -> int:
        """Read further, at most about ``budget`` bytes.

        Raises:
            OSError, FormatError: the files can no longer be read; records already passed on remain valid.
        """
        self.live = self._read_live()
        read = 0
        while read < budget:
            raw = self._next()
            used = self._decode(raw, sink) if raw else 0
            if not used:
                break
            # What ``_next`` skipped was not read: a damaged ring may claim any length.
            self.position += used
            read += used
        return read

    def skip_to_end(self) -> None:
        """Continue at the last segments that hold records; never go back."""
        end = self.live.head if self.has_ring else os.fstat(self._archive).st_size - form.HEADER_BYTES
        self.position = max(self.position, max(0, end // form.SEGMENT_BYTES - 1) * form.SEGMENT_BYTES)

    def _next(self) -> bytes:
        """Return bytes of the stream from ``position`` on, not beyond a multiple of ``CHUNK_BYTES``."""
        end = (self.position // CHUNK_BYTES + 1) * CHUNK_BYTES
        if self._ring >= 0:
            raw = self._from_ring(end)
            if raw is not None:
                return raw
        return self._from_archive(end)

    def _from_ring(self, end: int) -> bytes | None:
        capacity = self._ring_header.capacity
        oldest = self.live.head - capacity + form.SEGMENT_BYTES
        if self.position < oldest and self.live.archive == form.ARCHIVE_GOOD and self.live.flushed > self.position:
            return None
        if self.position < oldest:
            self._learn_names()
            self.damaged += 1
            # One extra segment, so that a fast writer does not overtake the read that follows.
            self.position = min(self.live.head, (-(-oldest // form.SEGMENT_BYTES) + 1) * form.SEGMENT_BYTES)
            end = (self.position // CHUNK_BYTES + 1) * CHUNK_BYTES
        elif self.position == 0 and self._archive < 0:
            self._learn_names()
        lap_end = (self.position // capacity + 1) * capacity
        end = min(end, self.live.head, lap_end)
        if end <= self.position:
            return b""
        raw = os.pread(self._ring, end - self.position, form.RING_DATA_OFFSET + self.position % capacity)
        self.live = self._read_live()
        if self.live.head - capacity + form.SEGMENT_BYTES > self.position:
            return b"" if self.live.archive != form.ARCHIVE_GOOD else None
        return raw

    def _from_archive(self, end: int) -> bytes:
        if self._archive < 0:
            return b""
        if self._ring >= 0:
            end = min(end, self.live.flushed)
        return os.pread(self._archive, max(0, end - self.position), form.HEADER_BYTES + self.position)

    def _learn_names(self) -> None:
        """Read the ring's area: the names of schemas whose records may already be overwritten."""
        self._names.update(self.area_names())

    def area_names(self) -> dict[int, tuple[str, ...]]:
        """Return schema -> the names in the ring's area.

        Raises:
            OSError: the file cannot be read.
        """
        found: dict[int, tuple[str, ...]] = {}
        for line in os.pread(self._ring, self.live.area_end, form.HEADER_BYTES).split(b"\n"):
            try:
                value = parse_json(line)
                if isinstance(value, dict) and "schema" in value:
                    found[int(value["schema"])] = tuple(str(name) for name in value["names"])
            except (ValueError, KeyError, TypeError):
                continue
        return found

    def _decode(self, raw: bytes, sink: Sink) -> int:
        """Pass on the records in ``raw``; return how many bytes were consumed."""
        usable = len(raw) // 8 * 8
        words = memoryview(raw)[:usable].cast("q")
        doubles = memoryview(raw)[:usable].cast("d")
        base = self.position
        offset = 0
        while offset < usable:
            word = words[offset >> 3]
            kind, schema, size = word & 0xFFFF, word >> 16 & 0xFFFF, word >> 32 & 0xFFFFFFFF
            left = form.SEGMENT_BYTES - (base + offset) % form.SEGMENT_BYTES
            if kind == form.PADDING and 8 <= size <= left and size % 8 == 0:
                offset += size
                continue
            if kind >= form.KINDS or size < form.RECORD_HEAD.size or size % 8 or size > left:
                self.damaged += 1
                offset += left
                continue
            if offset + size > usable:
                break
            if kind == form.SCALARS:
                count = _alike(words, offset, word, size, min(left, usable - offset) // size)
                whole = count - _is_cut(words, (offset + count * size) >> 3)
                if whole:
                    self._scalars(sink, words, doubles, offset >> 3, schema, size >> 3, whole)
                offset += count * size
                continue
            if kind <= form.EVENT:
                self._json(sink, kind, schema, words, offset, raw[offset + form.RECORD_HEAD.size : offset + size])
            offset += size
        return offset

    def _scalars(
        self, sink: Sink, words: memoryview[int], doubles: memoryview[float], start: int, schema: int, stride: int, count: int
    ) -> None:
        names = self._names.get(schema)
        if names is None or len(names) != stride - 3:
            self.damaged += 1
            return
        end = start + stride * count
        sink.scalars(
            names,
            words[start + 1 : end : stride].tolist(),
            words[start + 2 : end : stride].tolist(),
            [doubles[start + 3 + column : end : stride].tolist() for column in range(stride - 3)],
        )

    def _json(self, sink: Sink, kind: int, schema: int, words: memoryview[int], offset: int, body: bytes) -> None:
        try:
            value = parse_json(body)
        except FormatError:
            self.damaged += 1
            return
        if kind == form.SCHEMA:
            if isinstance(value, list) and len(value) <= form.NAMES_PER_RECORD:
                self._names[schema] = tuple(str(name) for name in value)
            return
        sink.event(kind, words[(offset >> 3) + 1], words[(offset >> 3) + 2], value)


def _alike(words: memoryview[int], offset: int, word: int, size: int, limit: int) -> int:
    """Return how many records from ``offset`` on have the same first word: kind, schema and size."""
    start, stride, count, reach = offset >> 3, size >> 3, 1, GALLOP
    if limit > 1 and words[start + stride] != word:
        return 1
    while count < limit:
        upto = min(limit, count + reach)
        heads = words[start + count * stride : start + upto * stride : stride].tolist()
        same = heads.count(word)
        if same != len(heads):
            return count + next(index for index, head in enumerate(heads) if head != word)
        count, reach = upto, reach * 2
    return count


def last_steps(archive: Path) -> tuple[int | None, int | None]:
    """Return the largest step of a journal's last records, and that of its automatic ones next to a script's own.

    Each is None if there are none, or if the journal cannot be read.
    """
    try:
        reader = JournalReader(archive)
    except (OSError, FormatError):
        return None, None
    try:
        reader.skip_to_end()
        found = [-1, -1]
        while raw := reader._next():
            done = 0
            for at, size in _records(raw):
                kind, schema, _, step, _ = form.RECORD_HEAD.unpack_from(raw, at)
                automatic = kind == form.SCALARS and schema >= form.AUTOMATIC_SCHEMAS_FROM
                found[automatic] = max(found[automatic], step)
                done = at + size
            reader.position += done
            if not done:
                break
        own, automatic_step = (step if step >= 0 else None for step in found)
        return own, automatic_step
    except (OSError, FormatError):
        return None, None
    finally:
        reader.close()


def _name_again(reader: JournalReader, target: int, start: int, end: int) -> bool:
    """Write the names of all schemas into the last segment of a hole in an archive: the ring's area, which goes with the ring,
    may be their only other copy. Return whether all is written.
    """
    at = max(start, end - form.SEGMENT_BYTES)
    raw = b""
    for schema, names in reader.area_names().items():
        record = form.pack_json(form.SCHEMA, schema, 0, 0, form.names_of(names))
        if len(raw) + len(record) + form.PADDING_HEAD.size <= end - at:
            raw += record
    raw += form.PADDING_HEAD.pack(form.PADDING, 0, end - at - len(raw))
    return os.pwrite(target, raw, form.HEADER_BYTES + at) == len(raw)


def _records(raw: bytes) -> Iterator[tuple[int, int]]:
    """Yield offset and size of each complete record with a step, up to the first damage."""
    at = 0
    while at + form.RECORD_HEAD.size <= len(raw):
        kind, _, size = form.PADDING_HEAD.unpack_from(raw, at)
        if size < form.PADDING_HEAD.size or size % 8 or at + size > len(raw):
            return
        if kind in (form.SCALARS, form.TEXT, form.EVENT):
            yield at, size
        at += size


def _is_cut(words: memoryview[int], end: int) -> bool:
    """Return whether the record that ends before word ``end`` is cut: a hole follows it and has taken its last byte.

    A file that lost its end and grew again, as after a power failure, has zeros in between: they are no values.
    """
    return end < len(words) and not words[end] and not words[end - 1] >> 56


def salvage(reader: JournalReader, archive: Path, ring: Path) -> bool:
    """Copy what a dead process left in its ring, and its state, to its archive; remove the ring; return True if all is copied.

    Any number of viewers may do this at once: all write the same bytes to the same offsets.
    """
    live, capacity = reader.live, reader._ring_header.capacity
    safe = max(0, -(-(live.head - capacity + form.SEGMENT_BYTES) // form.SEGMENT_BYTES) * form.SEGMENT_BYTES)
    position = live.flushed if live.flushed >= live.head - capacity + form.SEGMENT_BYTES else safe
    target = source = -1
    try:
        target = os.open(archive, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        if not os.path.samestat(os.fstat(target), os.fstat(reader._archive)):
            return False  # another file has taken its place since it was read
        source = open_checked(ring)
        if position > live.flushed and not _name_again(reader, target, live.flushed, position):
            return False
        while position < live.head:
            end = min(live.head, (position // capacity + 1) * capacity)
            raw = os.pread(source, end - position, form.RING_DATA_OFFSET + position % capacity)
            if not raw or os.pwrite(target, raw, form.HEADER_BYTES + position) != len(raw):
                return False
            position += len(raw)
        words = [*form.LIVE_WORDS.unpack(os.pread(source, form.LIVE_WORDS.size, form.LIVE_OFFSET))]
        words[form.W_ARCHIVE - form.W_HEAD] = form.ARCHIVE_TAKEN_OVER
        if os.pwrite(target, form.LIVE_WORDS.pack(*words), form.LIVE_OFFSET) != form.LIVE_WORDS.size:
            return False
        os.unlink(ring)
        return True
    except (OSError, ValueError, struct.error):  # also a ring that has just lost its first page
        return False
    finally:
        for handle in (target, source):
            if handle >= 0:
                os.close(handle)
