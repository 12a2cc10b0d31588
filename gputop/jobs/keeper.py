"""Keeps a job's output: takes it from memory, where the job writes it, to ``out.log``.

A job writes to a file in memory (memfd), which looks like a regular file to it, as ``out.log`` would. A print therefore never
fails or waits, even if the disk is full or hangs, or if processes of gputop are killed. A keeper, a process in its own session,
copies the output to the disk and frees the memory. If it is killed, the supervisor starts another; if the supervisor is killed,
the keeper continues. If both are killed, the output stays in memory for as long as the job runs; ``rescue`` writes it to the
disk when the job is stopped.

Only a bounded amount is kept, the newest output first, and a line in the log says how much was lost:

* ``out.log`` is cut to its newest half when it exceeds ``LOG_BYTES``, and on a disk that stays full.
* Output that cannot be written waits in memory: the newest ``KEEP_BYTES``, or up to ``LOG_BYTES`` if the disk is only slower
  than the job.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import mmap
import os
import signal
import time
from collections.abc import Collection
from pathlib import Path

from gputop.jobs import identity, job_processes, log_file, record
from gputop.jobs.log_file import PIECE_BYTES
from gputop.jobs.rank_reserve import RankReserve

LOG_BYTES = 256 << 20
KEEP_BYTES = 8 << 20
"""See the module's docstring."""
RESERVE_BYTES = 64 << 10
"""Reserved on the disk while a job runs, so that its last lines fit even if the disk has become full."""
CUT_BYTES = 16 << 10
"""A smaller log is not cut: it frees too little."""
FULL_PATIENCE_S = 10.0
"""How long to wait for room on a full disk before older output is dropped for newer."""
LINGER_S = 3600.0
"""How long a keeper waits for room after the job has ended."""
_TICK_S = 0.1
_POLL_S = 1.0
"""How often output is moved: while the supervisor runs, and without it."""
_RANKS_S = 0.25
"""How often the reserves of the ranks' files are checked."""
_FREE_BYTES = 256 << 10
"""Memory is freed in portions of at least this size."""
_MATCH_BYTES = 512
"""How much of the end of the log is searched for in memory, to find where to continue."""
_MFD_NOEXEC_SEAL = 8
"""From ``linux/memfd.h`` (Linux 6.3): the memory cannot be executed."""
_FULL = (errno.ENOSPC, errno.EDQUOT)


class _Counter:
    """A number of bytes that the supervisor and the keeper share: one of the numbers in the keeper's shared page."""

    def __init__(self, place: int) -> None:
        self._place = place

    def __get__(self, keeper: Keeper, owner: type[Keeper]) -> int:
        return keeper.numbers[self._place]

    def __set__(self, keeper: Keeper, value: int) -> None:
        keeper.numbers[self._place] = value


class Keeper:
    """The output of one job. The supervisor creates it; a forked process shares its memory and its counters."""

    _moved, _freed, _lost, _dropped = map(_Counter, range(4))
    _writing, _writing_from = map(_Counter, range(4, 6))
    """While a piece is written: the log's size before, plus 1, and how much had been moved. Else ``_writing`` is 0."""

    def __init__(self, directory: Path, job_id: str) -> None:
        """Raise OSError or AttributeError where the system has no such memory."""
        self._path = directory / record.OUT_LOG
        self._reserve = directory / record.RESERVE
        self._name = job_processes.output_name(job_id)
        self._memory = _memory_file(self._name)
        # The system drops a process's locks on a file with any of its descriptors: a window on the memory has one of its own.
        self._lock = _memory_file(f"{self._name}-lock")
        self._page = mmap.mmap(-1, mmap.PAGESIZE)  # shared with forked processes
        self.numbers = memoryview(self._page).cast("Q")
        self._failing_since: float | None = None
        self._pid: int | None = None
        with contextlib.suppress(OSError):
            _allocate(self._reserve, RESERVE_BYTES)

    def open_for_job(self) -> int:
        """Return a descriptor that appends to the memory, for the job's standard output and error."""
        return os.open(f"/proc/self/fd/{self._memory}", os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)

    def start(self) -> None:
        """Start the keeper, unless it is running. Call it in a process with one thread, which becomes the parent."""
        if self._pid is not None and os.waitpid(self._pid, os.WNOHANG) == (0, 0):
            return
        parent = os.getpid()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                os.setsid()
                self._close_others()
                self._keep(parent)
            finally:
                os._exit(0)

    def finish(self, patience_s: float) -> None:
        """Write all output to the disk. What does not fit within ``patience_s`` is left to the keeper."""
        if self._pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGCONT)  # a keeper that is suspended may hold the lock
        deadline = time.monotonic() + patience_s
        while not self._move(finishing=True) and time.monotonic() < deadline:
            time.sleep(_TICK_S)

    def _keep(self, parent: int) -> None:
        ended_at: float | None = None
        checked_at = 0.0
        ranks = RankReserve(self._path.parent)
        while True:
            self._move(finishing=ended_at is not None)
            now = time.monotonic()
            if now - checked_at >= _RANKS_S:
                checked_at = now
                ranks.hold()
            if os.getppid() != parent and not self._is_used():
                ended_at = ended_at or now
                if self._move(finishing=True) or now - ended_at > LINGER_S:
                    break
            # Without the supervisor, each round searches all processes for one that still writes.
            time.sleep(_TICK_S if os.getppid() == parent else _POLL_S)
        ranks.release()
        self._reserve.unlink(missing_ok=True)

    def _close_others(self) -> None:
        """Close what the supervisor had open: the job's own end of the output, and its log."""
        for number, _ in list(job_processes.open_files(os.getpid())):
            if number > 2 and number not in (self._memory, self._lock):
                with contextlib.suppress(OSError):
                    os.close(number)

    def _move(self, finishing: bool) -> bool:
        """Move the job's output to the disk; return whether all of it is there."""
        try:
            fcntl.lockf(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # a process holds it, and releases it when it exits
        except OSError:
            return False
        try:
            self._count_what_was_written()
            end = os.fstat(self._memory).st_size
            if end < self._moved:  # cut by the job itself, as by "> /dev/stderr" in a shell script
                self._moved = self._freed = 0
            self._drop(end, LOG_BYTES)
            while self._moved < end:
                try:
                    self._write(end)
                    self._failing_since = None
                except FileNotFoundError:  # the job's directory was deleted
                    self._moved = end
                except OSError as error:
                    if not self._make_room(end, finishing, error.errno in _FULL):
                        break
                self._free()
            return self._moved >= end
        finally:
            fcntl.lockf(self._lock, fcntl.LOCK_UN)

    def _count_what_was_written(self) -> None:
        """Count what a process wrote that was killed before it could: written again, it would be in the log twice."""
        if not self._writing:
            return
        with contextlib.suppress(OSError):
            self._moved = self._writing_from + max(0, self._path.lstat().st_size - self._writing + 1)
        self._writing = 0

    def _write(self, end: int) -> None:
        log = record.open_log(self._path)
        try:
            if self._lost:
                log_file.write_whole(log, log_file.note(self._lost))
                self._lost = 0
            data = os.pread(self._memory, min(PIECE_BYTES, end - self._moved), self._moved)
            self._writing_from, self._writing = self._moved, os.fstat(log).st_size + 1
            self._moved += os.write(log, data)
            size = os.fstat(log).st_size
        finally:
            self._writing = 0
            os.close(log)
        if size > LOG_BYTES:
            self._cut()

    def _make_room(self, end: int, finishing: bool, full: bool) -> bool:
        """Drop older output in favor of newer, if it is time to; return whether to try again."""
        now = time.monotonic()
        self._failing_since = self._failing_since or now
        waiting = end - self._moved
        if not finishing and waiting <= KEEP_BYTES and now - self._failing_since < FULL_PATIENCE_S:
            return False
        if full and (self._cut() or self._release()):
            return True
        self._drop(end, KEEP_BYTES)
        return False

    def _drop(self, end: int, most_bytes: int) -> None:
        """Drop the older part of what waits, if that is more than ``most_bytes``."""
        waiting = end - self._moved
        if waiting > most_bytes:
            self._lost += waiting - most_bytes // 2
            self._moved = end - most_bytes // 2

    def _cut(self) -> bool:
        """Reduce the log to its newest half, in place; return whether that freed anything."""
        try:
            if self._path.lstat().st_size < CUT_BYTES:
                return False
            self._dropped += log_file.cut(self._path, self._dropped)
        except OSError:
            return False
        return True

    def _release(self) -> bool:
        try:
            self._reserve.unlink()
        except OSError:
            return False
        return True

    def _free(self) -> None:
        """Free the memory of what was moved."""
        begin, end = self._freed, self._moved // mmap.ALLOCATIONGRANULARITY * mmap.ALLOCATIONGRANULARITY
        if end - begin < _FREE_BYTES:
            return
        # Either error means that the job has truncated its output meanwhile.
        with contextlib.suppress(OSError, ValueError), mmap.mmap(self._memory, end - begin, offset=begin) as window:
            window.madvise(mmap.MADV_REMOVE)
        self._freed = end

    def _is_used(self) -> bool:
        """Return whether another process still has the job's output open."""
        own, link = os.fstat(self._memory), f"/memfd:{self._name} (deleted)"
        for pid in identity.pids():
            for number, target in job_processes.open_files(pid) if pid != os.getpid() else ():
                with contextlib.suppress(OSError):
                    if target == link and os.path.samestat(own, os.stat(f"/proc/{pid}/fd/{number}")):
                        return True
        return False


def rescue(directory: Path, job_id: str, members: Collection[int]) -> None:
    """Append to the log what the processes of a job (``members``) have in memory, unless a keeper does so.

    Raises:
        OSError: the memory cannot be read, or the log cannot be written.
    """
    link = f"/memfd:{job_processes.output_name(job_id)} (deleted)"
    output = next((f"/proc/{pid}/fd/1" for pid in members if link in _targets(pid)), None)
    if output is None or any(link in _targets(pid) for pid in identity.pids() if pid not in members):
        return
    log = record.open_log(directory / record.OUT_LOG)
    memory = os.open(output, os.O_RDONLY)
    try:
        offset = os.lseek(memory, 0, os.SEEK_DATA)
        # Memory is freed in portions: the log may already contain the first part of what is left.
        with (directory / record.OUT_LOG).open("rb") as file:
            file.seek(-min(_MATCH_BYTES, os.fstat(log).st_size), os.SEEK_END)
            written = file.read()
        left = os.pread(memory, 2 * _FREE_BYTES + PIECE_BYTES, offset)
        found = left.find(written) if written else -1
        offset += 0 if found < 0 else found + len(written)
        while data := os.pread(memory, PIECE_BYTES, offset):
            offset += os.write(log, data)
    finally:
        os.close(memory)
        os.close(log)


def _memory_file(name: str) -> int:
    try:
        handle = os.memfd_create(name, os.MFD_CLOEXEC | _MFD_NOEXEC_SEAL)
    except OSError:  # Linux before 6.3
        handle = os.memfd_create(name, os.MFD_CLOEXEC)
    os.fchmod(handle, 0o600)
    return handle


def _allocate(path: Path, size_bytes: int) -> None:
    handle = record.open_log(path)
    try:
        os.posix_fallocate(handle, 0, size_bytes)
    finally:
        os.close(handle)


def _targets(pid: int) -> list[str]:
    return [target for _, target in job_processes.open_files(pid)]
