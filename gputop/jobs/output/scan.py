"""Scans logs for the doctor: any file whole, a job's output within its backlog."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from gputop.doctor.logs.scan import LogScan
from gputop.errors import UsageError
from gputop.jobs import record
from gputop.jobs.output import logs
from gputop.jobs.output.follower import ERRORS, FileFollower
from gputop.places import open_or_pipe

READ_BYTES = 1 << 20
"""How much is read at a time."""


def scan_file(path: Path, name: str | None = None, rank: int | None = None) -> LogScan:
    """Return the scan of a whole file; "-" is standard input.

    Raises:
        UsageError: it cannot be read.
    """
    if str(path) == "-":
        scan = LogScan(name or "standard input", rank)
        with open(0, "rb", closefd=False) as stdin:  # sys.stdin is None if it is closed
            return _read(scan, stdin)
    try:
        if path.is_dir():
            raise UsageError(f"{path} is a directory.", "Name the log files in it: gputop doctor --log DIR/*.log")
        file = open_or_pipe(path)
        if file is None:
            raise UsageError(
                f"{path} is a named pipe that no program has open to write.", "Start that program first, or name a log file."
            )
        with file:
            return _read(LogScan(name or path.name, rank, os.fstat(file.fileno()).st_mtime), file)
    except OSError as error:
        raise UsageError(
            f"{path} cannot be read: {error.strerror or error}.", "Name a log file, a gputop job, or -."
        ) from error


def scan_job(job_id: str) -> list[LogScan]:
    """Return one scan for each file of a job's output. Files that cannot be read are left out.

    Raises:
        UsageError: there is no such job.
    """
    found = []
    for source in logs.sources(job_id):
        log = scanned_source(source)
        log.read(READ_BYTES, finished=True)
        while not log.at_end:
            log.read(READ_BYTES, finished=True)
        if log.readable:
            found.append(log.scan)
    return found


def scanned_source(source: logs.Source) -> ScannedLog:
    """Return the scan of one file of a job's output; nothing is read yet."""
    path = source.path
    name = path.name if source.label in (logs.LAUNCHER, logs.SLURM) else f"{source.label}/{path.name}"
    return ScannedLog(path, name, None if source.local else source.rank)


class ScannedLog:
    """One file of a run's output, scanned as it grows."""

    def __init__(self, path: Path, name: str, rank: int | None) -> None:
        self._name = name
        self._rank = rank
        self._file = FileFollower(path, ERRORS)
        self.scan = LogScan(self._name, self._rank)
        self.readable = False
        """Whether the file could be opened at least once."""
        self.at_end = False

    @property
    def offset(self) -> int:
        """How far the file has been read, in bytes."""
        return self._file.offset

    def begin_anew(self) -> LogScan:
        """Start another scan here, with the line numbers of the file; return the one until here."""
        before = self.scan
        self.scan = LogScan(self._name, self._rank, before.written_at)
        self.scan.continue_lines(before)
        return before

    def read(self, max_bytes: int, finished: bool) -> int:
        """Scan at most ``max_bytes`` more and return how many; ``finished``: no more will be written."""
        chunk = self._file.read(max_bytes, finished)
        if chunk.restarted:
            self.scan = LogScan(self._name, self._rank)
        if chunk.skipped_bytes:
            self.scan.skip()
        if chunk.written_at is not None:
            self.readable = True
            self.scan.written_at = chunk.written_at
        self.scan.feed(chunk.data)
        if chunk.complete:
            self.scan.end()
        self.at_end = chunk.at_end
        return len(chunk.data)


def scan_all(names: Iterable[str]) -> list[LogScan]:
    """Return the scans of files, "-" and jobs, in the order given; files of the same name are shown with their path.

    Raises:
        UsageError: one of them is neither.
    """
    scans: list[LogScan] = []
    names = list(names)
    same = len({Path(name).name for name in names}) < len(names)
    for name in names:
        path = Path(name)
        if name != "-" and not path.exists() and _is_job(name):
            scans += scan_job(name)
        else:
            scans.append(scan_file(path, str(path) if same else None, _rank_of(path)))
    return scans


def _is_job(name: str) -> bool:
    try:
        record.job_dir(name)
    except UsageError:
        return False
    return True


def _rank_of(path: Path) -> int | None:
    """Return the rank of a file in torchrun's layout, .../attempt_0/<local rank>/stderr.log."""
    parts = path.parts
    if len(parts) >= 3 and parts[-3].startswith("attempt_") and parts[-2].isdigit():
        return int(parts[-2])
    return None


def _read(scan: LogScan, file: BinaryIO) -> LogScan:
    while data := file.read(READ_BYTES):
        scan.feed(data)
    scan.end()
    return scan
