"""A recording: the stream as a file, one header line and then one snapshot per line."""

from __future__ import annotations

import json
import os
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, NamedTuple

from gputop.errors import GputopError, UsageError
from gputop.places import open_or_pipe
from gputop.snapshot import SCHEMA_VERSION, FormatError, Snapshot
from gputop.stream import SnapshotReader
from gputop.wire import LEVELS_MAX, LINE_MAX_BYTES, parse_json

RECORDING_VERSION = 1
"""The version of the header line; each snapshot also has a schema version."""


class Place(NamedTuple):
    """Where a line of a recording begins: its first byte, and its number."""

    offset: int
    line: int


BEGINNING = Place(0, 1)
COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zip")
"""Endings of names of compressed files, which a recording is not: after a kill, the end of such a file could not be read."""
_GZIP = b"\x1f\x8b"


class Recorder:
    """Appends snapshots to a file; after a kill, every complete line survives."""

    def __init__(self, path: Path) -> None:
        """Create ``path``; never overwrite an existing file.

        Raises:
            UsageError: the name is that of a compressed file.
            GputopError: the file exists or cannot be written.
        """
        if path.suffix.lower() in COMPRESSED:
            message = f"{path} has the name of a compressed file, and a recording is plain text."
            raise UsageError(message, f"Record to {path.with_suffix('')}, and compress that later.")
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError as error:
            raise GputopError(f"{path} already exists.", "Choose another name, or remove it first.") from error
        except OSError as error:
            raise GputopError(f"{path} cannot be written: {error.strerror}.", "Choose another place.") from error
        self.path = path
        header = {"gputop_recording": RECORDING_VERSION, "schema_version": SCHEMA_VERSION, "created_at": time.time()}
        self._write(json.dumps(header))

    def write(self, line: str) -> None:
        """Append one snapshot's line.

        Raises:
            GputopError: the disk is full or gone.
        """
        self._write(line)

    def _write(self, line: str) -> None:
        data = line.encode() + b"\n"
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            raise GputopError(
                f"{self.path} can no longer be written: {error.strerror}.", "What was recorded so far can be replayed."
            ) from error

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()


def read_recording(path: Path) -> Iterator[Snapshot]:
    """Yield the snapshots of a recording in order; see ``read_from``."""
    return (snapshot for _, snapshot in read_from(path))


def read_from(path: Path, start: Place = BEGINNING) -> Iterator[tuple[Place, Snapshot]]:
    """Yield the snapshots of a recording from a place on, and where each begins.

    An incomplete last line (of a killed recorder) ends it silently. A stream without a header (``gputop --stream > file``) is
    accepted too.

    Raises:
        GputopError: the file cannot be read or is not a recording, or is a pipe to which no program writes.
    """
    reader = SnapshotReader()
    for place, line in _lines(path, start):
        if not place.offset and line.startswith(_GZIP):
            raise GputopError(f"{path} is compressed.", f"Unpack it first: gunzip {shlex.quote(str(path))}")
        if len(line) == LINE_MAX_BYTES:
            raise GputopError(
                f"{path}, line {place.line}: longer than any snapshot.", "Only files of gputop record can be replayed."
            )
        if not line.endswith(b"\n"):
            return
        if place.line == 1 and is_header(line, path):
            continue
        try:
            yield place, reader.read(line, LEVELS_MAX)
        except FormatError as error:
            raise GputopError(f"{path}, line {place.line}: {error}.", "Only files of gputop record can be replayed.") from error


def _lines(path: Path, start: Place) -> Iterator[tuple[Place, bytes]]:
    """Yield the lines of a file, or of a pipe, from a place on, and where each begins."""
    offset = start.offset
    try:
        with _opened(path) as file:
            if offset:
                file.seek(offset)
            for number, line in enumerate(iter(lambda: file.readline(LINE_MAX_BYTES), b""), start.line):
                yield Place(offset, number), line
                offset += len(line)
    except OSError as error:
        raise GputopError(
            f"{path} cannot be read: {error.strerror or error}.", "Give the file that gputop record wrote."
        ) from error


def _opened(path: Path) -> BinaryIO:
    """Open a file, or a pipe that some program writes to.

    Raises:
        OSError: it cannot be opened.
        UsageError: no program writes to it.
    """
    file = open_or_pipe(path)
    if file is None:
        raise UsageError(f"{path} is a named pipe that no program has open to write.", "Start that program first.")
    return file


def is_header(line: bytes, path: Path) -> bool:
    """Return whether the line is a recording's header.

    Raises:
        GputopError: the header is damaged or from a newer version.
    """
    try:
        data = parse_json(line)
    except FormatError:
        return False
    if not isinstance(data, dict) or "gputop_recording" not in data:
        return False
    version = data["gputop_recording"]
    if not isinstance(version, int):
        raise GputopError(
            f"{path} has a damaged header: {version!r} is no version.", "Only files of gputop record can be replayed."
        )
    if version > RECORDING_VERSION:
        raise GputopError(f"{path} was recorded by a newer gputop.", "Update gputop to replay it.")
    return True
