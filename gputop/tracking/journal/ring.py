"""The ring's file: made on tmpfs, mapped into the training, and removed at its end."""

from __future__ import annotations

import mmap
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gputop.tracking.journal import format as form
from gputop.tracking.journal import places
from gputop.tracking.journal.mapping import map_shared

TMPFS_SHARE = 16
"""A ring takes at most 1/16 of the free space: /dev/shm is 64 MiB in a container, and DataLoader workers need it."""


@dataclass(frozen=True, slots=True)
class Ring:
    """A ring's file and its mapping, which needs no descriptor."""

    path: Path
    memory: memoryview[int]

    def remove(self) -> None:
        """Remove the file, and its directory unless other ranks keep rings there."""
        with suppress(OSError):  # already gone
            os.unlink(self.path)
            os.rmdir(self.path.parent)


def open_ring(identity: form.Identity, runs_dir: Path, archive: Path | None, ring_bytes: int | None) -> Ring | None:
    """Return a new ring in the best place for it; None if there is none. ``ring_bytes`` is the wanted capacity."""
    for directory in places.live_dirs(runs_dir):
        try:
            return _make(identity, places.secure_dir(directory), archive, ring_bytes or form.RING_BYTES)
        except OSError:
            continue
    return None


def _make(identity: form.Identity, directory: Path, archive: Path | None, wanted: int) -> Ring:
    found = os.statvfs(directory)
    free = found.f_bavail * found.f_frsize // TMPFS_SHARE
    capacity = min(wanted, free, form.RING_BYTES_MAX) // form.SEGMENT_BYTES * form.SEGMENT_BYTES
    if capacity < form.RING_BYTES_MIN:
        raise OSError("too little space for a ring")
    stem = f"{identity.run_id}-{form.file_stem(identity.rank, identity.attempt)}"
    path = directory / (f"{stem}.ring" if archive else f"{stem}-{identity.pid}.ring")
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(path, flags, 0o600)
    try:
        size = form.RING_DATA_OFFSET + capacity
        # A sparse file on a full tmpfs would kill the training with SIGBUS at a later record, so allocate the space now.
        os.posix_fallocate(fd, 0, size)
        memory = map_shared(fd, size)
        page = form.pack_header(form.RING, capacity, identity, str(archive or ""))
        memory[: len(page)] = bytes(page)
        for offset in range(form.HEADER_BYTES, size, mmap.PAGESIZE):
            memory[offset] = 0  # so that no record waits for a page fault
        # After this only root can truncate it by accident (`> FILE`), which would kill the training.
        os.fchmod(fd, 0o400)
    except BaseException:
        os.unlink(path)
        raise
    finally:
        os.close(fd)
    return Ring(path, memory)
