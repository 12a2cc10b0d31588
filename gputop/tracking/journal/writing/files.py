"""Opens a journal's files, and runs the thread that copies the ring to the archive; falls back to one file if necessary.

The thread runs almost no bytecode (a busy Python thread would make the training wait for the interpreter lock): it wakes
every half second, slices the ring once and writes once. While automatic tracking defers records, it wakes every 30 ms to put
them into the ring if the training itself does not, so that viewers stay up to date. It holds no lock that ``log`` or a
forked child needs.
"""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from gputop.places import make_private_dir
from gputop.tracking.journal import format as form
from gputop.tracking.journal import places
from gputop.tracking.journal.notice import reason, warn
from gputop.tracking.journal.read import last_steps
from gputop.tracking.journal.unseen_thread import UnseenThread
from gputop.tracking.journal.worker import Worker
from gputop.tracking.journal.writing.mapping import private
from gputop.tracking.journal.writing.own_file import OwnFile
from gputop.tracking.journal.writing.ring import open_ring
from gputop.tracking.journal.writing.writer import Journal

FLUSH_S = 0.5
QUICK_S = 0.032
QUICK_FOR_S = 1.0
"""The thread polls deferred records (``Journal.defer``) at the first interval, for the second after the last of them."""
FINISH_S = 2.0
"""How long ``finish`` waits for the disk."""
ARCHIVE_BYTES_MAX = 4 << 30
"""About 70 million records of four metrics; beyond this the archive stops and the live view continues."""
_NO_ROOM = (errno.EDQUOT, errno.EFBIG, errno.ENOSPC)
ATTEMPTS = 1000
"""How many journals one rank may have in a run: one for each start of it."""


class Reporter(Protocol):
    """Keeps a page of the ring up to date."""

    def write_if_due(self, ring: memoryview[int], asked_ns: int) -> None:
        """Write the page if it is due; ``asked_ns`` is the ring's time of modification. Returns quickly, never raises."""

    def end(self) -> None:
        """Release what was allocated for it."""


class OpenJournal:
    """A journal, its files, and the thread between them."""

    def __init__(self, identity: form.Identity, runs_dir: Path, *, thread: bool = True, ring_bytes: int | None = None) -> None:
        """Open the files.

        Raises:
            OSError: neither a ring nor an archive can be created.
        """
        self.on_tick: Callable[[], None] | None = None
        """Called on the flusher's thread about once a second; must return quickly."""
        self.on_end: Callable[[], None] | None = None
        """Called before the end of the run is written; must return quickly."""
        self.reporter: Reporter | None = None
        """Called on the flusher's thread twice a second while there is a ring."""
        self._pid = os.getpid()
        self._flusher = Worker(self._run)
        self._archive_path: Path | None = None
        self._state_before: int | None = None
        """The state before an end was noted."""
        archive, identity, reason = self._open_archive(identity, runs_dir)
        ring = self._ring = open_ring(identity, runs_dir, self._archive_path, ring_bytes) if thread else None
        through = ring is None
        if ring is None and archive is None:
            raise reason or OSError("no place for the journal")
        if ring is not None and reason is not None:
            warn(f"the run is shown while it lasts but not kept: {reason.strerror or reason} ({reason.filename or runs_dir}).")
        self.identity = identity
        self.journal = Journal(
            private(form.RING_DATA_OFFSET + form.RING_BYTES_MIN) if ring is None else ring.memory,
            archive,
            through=through,
            start_flusher=None if through else self._flusher.start,
            wake_flusher=None if through else self._wake_flusher,
            mirror=None if ring is None else ring.mirror,
        )
        if archive is not None:
            self.journal.note_archive(form.ARCHIVE_GOOD)
            try:
                page = form.pack_header(form.ARCHIVE, 0, identity, "" if ring is None else str(ring.path))
                archive.write(bytes(page), 0)
                self._write_live(archive)
            except OSError as error:
                self._stop_archive(error)

    def continue_steps(self) -> None:
        """Continue counting from the last step in this rank's earlier journals, if they can be read."""
        for attempt in reversed(range(self.identity.attempt)):
            if self._archive_path is not None:
                name = f"{form.file_stem(self.identity.rank, attempt)}.gpr"
                own, automatic = last_steps(self._archive_path.with_name(name))
                if own is not None or automatic is not None:
                    self.journal.continue_from(-1 if own is None else own)
                    self.journal.automatic_from = 0 if automatic is None else automatic + 1
                    return

    @property
    def ring_path(self) -> Path | None:
        """The ring's file; None if records are written through."""
        return None if self._ring is None else self._ring.path

    @property
    def archive_path(self) -> Path | None:
        """The run's file on disk; None if it is not kept."""
        return self._archive_path

    def _open_archive(self, identity: form.Identity, runs_dir: Path) -> tuple[OwnFile | None, form.Identity, OSError | None]:
        try:
            root = places.archive_root(runs_dir)
            if root == runs_dir:
                make_private_dir(root)
            else:
                places.secure_dir(root)
            directory = make_private_dir(root / identity.run_id)
            for attempt in range(ATTEMPTS):
                path = directory / f"{form.file_stem(identity.rank, attempt)}.gpr"
                try:
                    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
                except FileExistsError:
                    continue
                self._archive_path = path
                return OwnFile(fd, path), form.with_attempt(identity, attempt), None
            raise OSError(f"{directory} holds {ATTEMPTS} journals of rank {identity.rank}")
        except OSError as error:
            return None, identity, error

    def _wake_flusher(self) -> None:
        self._flusher.start()
        self._flusher.wake()

    def _run(self) -> None:
        ticks = 0
        journal, flusher = self.journal, self._flusher
        flush_at = slow_at = 0.0
        while not flusher.has_to_leave():
            flusher.sleep(QUICK_S if journal.quick else FLUSH_S)
            try:
                self._leave_truncated_ring()
                now = time.monotonic()
                if journal.catch_up(journal.own_ns):
                    slow_at = now + QUICK_FOR_S
                elif journal.quick and now > slow_at:
                    journal.quick = journal.waits
                if now < flush_at and not flusher.stopping and not self._fills():
                    continue
                flush_at = now + FLUSH_S
                self._attend()  # before accessing the disk, which may not answer
                self._flush()
                ticks += 1
                if ticks % 2 == 0 and not flusher.stopping:
                    self._tick()
            except OSError as error:
                self._stop_archive(error)
            except Exception as error:  # noqa: BLE001 - a dying thread would print a traceback into the user's log
                warn(f"the flusher failed ({reason(error)}).", about="the flusher")
        if not flusher.stopping:
            self._leave_for_fork()

    def _leave_for_fork(self) -> None:
        """Write what is pending, and make the next record start the thread again."""
        try:
            self._leave_truncated_ring()
            self.journal.catch_up()
            self._flush()
        except OSError as error:
            self._stop_archive(error)
        except Exception as error:  # noqa: BLE001 - as above
            warn(f"the flusher failed ({reason(error)}).", about="the flusher")
        self.journal.quick = False
        self.journal.want_attention()

    def _fills(self) -> bool:
        return self.journal.position - self.journal.flushed > self.journal.capacity // 4

    def _leave_truncated_ring(self) -> None:
        """Abandon a ring whose file became shorter, or cannot be written: readers continue with the archive."""
        ring, archive = self._ring, self.journal.archive
        if ring is None or not ring.is_truncated():
            return
        self._ring = None
        ring.mirror.failed = True
        ring.remove()
        if archive is None or self.journal.archive_state != form.ARCHIVE_GOOD:
            warn(f"{ring.path} {ring.mirror.why}: the run is no longer recorded, the training continues.")
            return
        warn(f"{ring.path} {ring.mirror.why}: from now on the run is read from the disk, half a second later.")
        self._write_live(archive)

    def _attend(self) -> None:
        ring = self._ring
        if self.reporter is None or ring is None or self._flusher.stopping:
            return
        asked_ns = ring.asked_ns()
        if asked_ns is not None:
            self.reporter.write_if_due(ring.memory, asked_ns)
            ring.mirror.copy(form.STANDING_OFFSET, form.STANDING_BYTES)

    def _tick(self) -> None:
        self.journal.anchor()
        self.journal.collect()
        if self.on_tick is not None:
            self.on_tick()
        self._check_archive()

    def _check_archive(self) -> None:
        archive = self.journal.archive
        if self.journal.archive_state == form.ARCHIVE_GOOD and archive is not None and not archive.links():
            raise FileNotFoundError(2, "the run's directory was deleted")

    def _flush(self) -> None:
        journal = self.journal
        words, capacity, archive = journal.words, journal.capacity, journal.archive
        if journal.archive_state != form.ARCHIVE_GOOD or journal.through or archive is None:
            return
        position, head = journal.flushed, journal.shown
        while position < head:
            oldest = words[form.W_HEAD] - capacity + form.SEGMENT_BYTES
            if position < oldest:
                position = self._skip(archive, position, oldest)
            lap_end = (position // capacity + 1) * capacity
            end = min(head, lap_end)
            offset = form.RING_DATA_OFFSET + position % capacity
            raw = bytes(journal.ring[offset : offset + end - position])
            if words[form.W_HEAD] - capacity + form.SEGMENT_BYTES > position:
                continue
            if end > ARCHIVE_BYTES_MAX:
                raise OSError(27, "the archive of this rank is full")
            archive.write(raw, form.HEADER_BYTES + position)
            position = end
            journal.note_flushed(position)

    def _skip(self, archive: OwnFile, position: int, oldest: int) -> int:
        """Skip what was overwritten, and return where to continue; write what later records depend on into the hole."""
        start = -(-oldest // form.SEGMENT_BYTES) * form.SEGMENT_BYTES
        self.journal.set_word(form.W_DROPPED, self.journal.words[form.W_DROPPED] + start - position)
        warn("the disk is slower than the log calls: some records are not kept.")
        for record in self.journal.statements():
            left = form.SEGMENT_BYTES - position % form.SEGMENT_BYTES
            if len(record) > left:
                position += left  # zeros make a reader continue at the next segment
            if position + len(record) > start:
                break
            archive.write(record, form.HEADER_BYTES + position)
            position += len(record)
        return start

    def _write_live(self, archive: OwnFile) -> None:
        """Write the live words to the archive: state, exit code, and the end of the stream."""
        words = self.journal.words
        fields = [words[index] for index in range(form.W_HEAD, form.W_ARCHIVE + 1)]
        archive.write(form.LIVE_WORDS.pack(*fields), form.LIVE_OFFSET)

    def _write_end(self, archive: OwnFile) -> None:
        """Write state and exit code in place: a file that can grow no further still says how the run ended."""
        words = self.journal.words
        fields = [words[index] for index in (form.W_STATE, form.W_EXIT_CODE, form.W_ARCHIVE)]
        with suppress(OSError):  # why recording stopped has already been reported
            archive.write(form.END_WORDS.pack(*fields), form.END_OFFSET)

    def _stop_archive(self, error: OSError) -> None:
        self.journal.note_archive(form.ARCHIVE_STOPPED)
        goes_on = self._ring is not None and error.errno in _NO_ROOM
        rest = " Readers add the last part of the run once it has ended, if there is room then." if goes_on else ""
        warn(f"recording to {self._archive_path or 'disk'} stops, the training continues: {error.strerror or error}.{rest}")

    def note_end(self, state: int, exit_code: int | None) -> None:
        """Write the final state where the last records are: into the ring, or to the archive if there is no ring."""
        journal = self.journal
        if journal.closed or os.getpid() != self._pid:
            return
        journal.catch_up()
        if self._state_before is None:  # in a child of a run's process, gputop's functions may stand for each other
            self._state_before = journal.words[form.W_STATE]
        self._note_state(state, exit_code)

    def take_back_end(self) -> None:
        """Undo ``note_end``: the process continues."""
        if not self.journal.closed and os.getpid() == self._pid and self._state_before is not None:
            self._note_state(self._state_before, None)
            self._state_before = None

    def _note_state(self, state: int, exit_code: int | None) -> None:
        self._state_end(state, exit_code)
        if self.journal.through and self.journal.archive is not None:
            if self.journal.archive_state == form.ARCHIVE_GOOD:
                self._write_live(self.journal.archive)
            else:
                self._write_end(self.journal.archive)

    def _state_end(self, state: int, exit_code: int | None) -> None:
        self.journal.set_word(form.W_EXIT_CODE, form.NO_EXIT_CODE if exit_code is None else exit_code)
        self.journal.set_word(form.W_STATE, state)

    def finish(self, state: int, exit_code: int | None) -> None:
        """Write the final state, flush within ``FINISH_S``, and remove the ring once all of it is on disk."""
        journal = self.journal
        if journal.closed or os.getpid() != self._pid:
            return
        self._leave_truncated_ring()
        if self.on_end is not None:
            self.on_end()
        if self.reporter is not None:
            self.reporter.end()
        journal.close()
        if journal.dropped_calls:
            warn(f"{journal.dropped_calls} log calls were dropped: signal handlers that log interrupted each other.")
        self._state_end(state, exit_code)
        if not self._flush_last():
            warn(f"the disk did not answer within {FINISH_S:g} s: the end of the run stays in memory.")
            return
        kept = journal.archive_state == form.ARCHIVE_GOOD and journal.flushed == journal.position
        if self._ring is not None and (kept or self._archive_path is None):
            self._ring.remove()
        if journal.archive is not None:
            journal.archive.close()
            journal.archive = None

    def _flush_last(self) -> bool:
        """Flush for the last time; return whether it is done. On a thread: a hanging disk must not delay the training's end."""
        deadline = time.monotonic() + FINISH_S
        self._flusher.stop()
        if sys.is_finalizing():  # a new thread would not start, and the others have stopped
            self._last_flush()
            return True
        if not self._flusher.join(deadline - time.monotonic()):
            return False
        last = UnseenThread(self._last_flush)
        try:
            last.start()
        except RuntimeError:  # the interpreter no longer starts threads
            self._last_flush()
            return True
        last.join(max(0.0, deadline - time.monotonic()))
        return not last.is_alive()

    def _last_flush(self) -> None:
        archive = self.journal.archive
        if archive is None:
            return
        try:
            self._check_archive()
            self._flush()
            if self.journal.archive_state == form.ARCHIVE_GOOD:
                self._write_live(archive)
            elif self.journal.through:
                self._write_end(archive)
        except OSError as error:
            self._stop_archive(error)
