"""Writes a journal's stream: bytes into the ring, or straight to the archive. Takes no lock: see ``Journal``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import monotonic_ns
from typing import Any

from gputop.tracking.journal import format as form
from gputop.tracking.journal.notice import warn
from gputop.tracking.journal.writing.mapping import Mirror
from gputop.tracking.journal.writing.own_file import OwnFile

Plan = tuple[int, int]
"""How to write the record of a set of names: its first word, its size in bytes."""


class Stream:
    """The writing end of one rank's stream. ``ring`` is the memory to write to, and ``mirror`` copies it to the ring's file.

    ``through`` means write-through: there is no ring file, and every record is one write to the archive.
    """

    def __init__(
        self,
        ring: memoryview[int],
        archive: OwnFile | None,
        *,
        through: bool,
        wake_flusher: Callable[[], None] | None,
        mirror: Mirror | None = None,
    ) -> None:
        self.ring = ring
        self.capacity = len(ring) - form.RING_DATA_OFFSET
        self.words = ring.cast("q")
        self._doubles = ring.cast("d")
        self._mirror = mirror
        self.archive = archive
        self.archive_state = form.ARCHIVE_NONE
        self.through = through
        self.flushed = 0
        """The end of what is in the archive."""
        self._wake_flusher = wake_flusher
        self._plans: dict[tuple[str, ...], Plan] = {}
        self._stated: dict[tuple[str, str], dict[str, Any]] = {}
        self._position = 0
        self._shift = form.RING_DATA_OFFSET
        self._limit = 0
        self._step = -1
        self._wants_attention = False

    def note_flushed(self, position: int) -> None:
        """Note that the stream is in the archive up to here."""
        self.flushed = position
        self.set_word(form.W_FLUSHED, position)

    def note_archive(self, state: int) -> None:
        """Note whether the archive is written."""
        self.archive_state = state
        self.set_word(form.W_ARCHIVE, state)

    def set_word(self, index: int, value: int) -> None:
        """Set a live word, except the head, and show it to readers."""
        self.words[index] = value
        if self._mirror is not None:
            self._mirror.copy_live()

    @property
    def shown(self) -> int:
        """The end of what readers see of the stream: the position, unless a record is being written."""
        return self._position if self._mirror is None else self._mirror.end

    @property
    def plans(self) -> Mapping[tuple[str, ...], Plan]:
        """How to write, and to find again, the records of each set of names; a journal that closes starts another mapping."""
        return self._plans

    @property
    def doubles(self) -> memoryview[float]:
        """The ring as floating-point numbers."""
        return self._doubles

    @property
    def step(self) -> int:
        """The last step that was logged; -1 before the first."""
        return self._step

    automatic_from = 0
    """The first step of automatic values next to the script's own: after those that an earlier journal of the run holds."""

    def continue_from(self, step: int) -> None:
        """Continue counting from this step: the run was recorded before, up to it."""
        self._step = step

    @property
    def position(self) -> int:
        """The end of the stream, in bytes from its start."""
        return self._position

    def _note(self, line: dict[str, Any]) -> None:
        """Add a line to the ring's area if it fits, for readers that find no archive."""
        raw = form.pack_json(form.EVENT, 0, 0, 0, line)[form.RECORD_HEAD.size :] + b"\n"
        end = self.words[form.W_AREA_END]
        if end + len(raw) <= form.AREA_BYTES:
            self.ring[form.HEADER_BYTES + end : form.HEADER_BYTES + end + len(raw)] = raw
            self.words[form.W_AREA_END] = end + len(raw)
            if self._mirror is not None:
                self._mirror.copy(form.HEADER_BYTES + end, len(raw))

    def _put(self, record: bytes) -> None:
        segment_end = (self._position // form.SEGMENT_BYTES + 1) * form.SEGMENT_BYTES
        if self._position + len(record) > segment_end:
            padding = segment_end - self._position
            self._copy(form.PADDING_HEAD.pack(form.PADDING, 0, padding) + bytes(padding - form.PADDING_HEAD.size))
        self._copy(record)

    def _copy(self, raw: bytes) -> None:
        position = self._position
        segment = position // form.SEGMENT_BYTES
        if position % form.SEGMENT_BYTES == 0:
            self._shift = form.RING_DATA_OFFSET + position % self.capacity - position
        offset = position + self._shift
        self.ring[offset : offset + len(raw)] = raw
        end = position + len(raw)
        self.words[form.W_HEAD] = self._position = end
        if self._mirror is not None:
            self._mirror.follow(end)
        if self.through:
            self._write_through(raw, position)
            return
        if end % form.SEGMENT_BYTES == 0:
            self._limit = 0
        elif not self._wants_attention and self.words[form.W_STATE] != form.STARTING:
            self._limit = (segment + 1) * form.SEGMENT_BYTES
        if self._wake_flusher is not None and end - self.flushed > self.capacity // 4:
            self._wake_flusher()
        if self.archive_state != form.ARCHIVE_GOOD and position % form.SEGMENT_BYTES == 0 and position:
            self._restate()

    def statements(self) -> list[bytes]:
        """Return records of all names and current statements, for a stream whose beginning was lost. Safe on any thread."""
        now = monotonic_ns()
        schemas = [
            form.pack_json(form.SCHEMA, plan[0] >> 16 & 0xFFFF, self._step, now, form.names_of(names))
            for names, plan in list(self._plans.items())
        ]
        return schemas + [form.pack_json(form.EVENT, 0, self._step, now, event) for event in list(self._stated.values())]

    def _restate(self) -> None:
        """Repeat the current statements, once per segment, before the ring overwrites them: there is no other copy."""
        now = monotonic_ns()
        for event in list(self._stated.values()):
            record = form.pack_json(form.EVENT, 0, self._step, now, event)
            if len(record) < form.SEGMENT_BYTES // 2 - self._position % form.SEGMENT_BYTES:
                self._copy(record)

    def _write_through(self, raw: bytes, position: int) -> None:
        if self.archive is None or self.archive_state != form.ARCHIVE_GOOD:
            return
        try:
            self.archive.write(raw, form.HEADER_BYTES + position)
            self.note_flushed(position + len(raw))
        except OSError as error:
            self.note_archive(form.ARCHIVE_STOPPED)
            warn(f"recording stops, the training continues: {error.strerror or error}.")
