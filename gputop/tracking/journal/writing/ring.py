"""The ring's file: made on tmpfs, mapped into the training, watched, and removed at its end.

A file that is truncated while it is mapped ends the process at its next access to the mapping, by SIGBUS. So the training
never accesses it: it writes to memory of its own, and ``mapping.Mirror`` has the kernel copy that, or ``file_mirror`` writes it
where a container forbids this. A ring that became shorter is noticed at the next record, or by the journal's thread, which
looks at the file's length twice a second or more; it is removed, and readers continue with the archive.

The directory is closed to other users, and the file is read-only once it is mapped, so that accidents are rare: only its owner
can truncate it, after a ``chmod``, or root, without one.
"""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gputop.tracking.journal import format as form
from gputop.tracking.journal import places, size_limit
from gputop.tracking.journal.notice import warn
from gputop.tracking.journal.writing.file_mirror import FileMirror
from gputop.tracking.journal.writing.mapping import Mirror, copying_call, map_shared, private
from gputop.tracking.journal.writing.own_file import OwnFile

TMPFS_SHARE = 16
"""A ring takes at most 1/16 of the free space: /dev/shm is 64 MiB in a container, and DataLoader workers need it."""


@dataclass(frozen=True, slots=True)
class Ring:
    """A ring's file, the memory that it shows, and what copies that; no descriptor is needed for it."""

    path: Path
    memory: memoryview[int]
    mirror: Mirror
    inode: int

    def is_truncated(self) -> bool:
        """Return whether the file is shorter than it was, or cannot be written; False if it was removed, which is harmless."""
        found = self._stat()
        return self.mirror.failed or (found is not None and found.st_size < len(self.memory))

    def asked_ns(self) -> int | None:
        """Return when the file was last modified from outside; None if it is gone or truncated: then write nothing to it."""
        found = self._stat()
        return None if found is None or found.st_size < len(self.memory) else found.st_mtime_ns

    def _stat(self) -> os.stat_result | None:
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found if found.st_ino == self.inode else None

    def remove(self) -> None:
        """Remove the file, and its directory unless other ranks keep rings there."""
        self.mirror.close()
        with suppress(OSError):  # already gone
            os.unlink(self.path)
            os.rmdir(self.path.parent)


def open_ring(identity: form.Identity, runs_dir: Path, archive: Path | None, ring_bytes: int | None) -> Ring | None:
    """Return a new ring in the best place for it; None if there is none. ``ring_bytes`` is the wanted capacity.

    If another user occupies the place, a warning names it.
    """
    obstacles = []
    for directory in places.live_dirs(runs_dir):
        try:
            try:
                return _make(identity, places.secure_dir(directory), archive, ring_bytes or form.RING_BYTES)
            except FileNotFoundError:  # the directory was empty, and another process removed it meanwhile
                return _make(identity, places.secure_dir(directory), archive, ring_bytes or form.RING_BYTES)
        except OSError:
            obstacles.append(places.obstacle(directory))
    obstacle = next(filter(None, obstacles), None)
    if obstacle is not None:
        warn(f"{obstacle}, so that each log call writes to the disk and takes longer. Remove it, or ask its owner to.")
    return None


def _make(identity: form.Identity, directory: Path, archive: Path | None, wanted: int) -> Ring:
    found = os.statvfs(directory)
    free = found.f_bavail * found.f_frsize // TMPFS_SHARE
    capacity = min(wanted, free, form.RING_BYTES_MAX) // form.SEGMENT_BYTES * form.SEGMENT_BYTES
    if capacity < form.RING_BYTES_MIN:
        raise OSError("too little space for a ring")
    size = form.RING_DATA_OFFSET + capacity
    size_limit.check(size - 1)
    stem = f"{identity.run_id}-{form.file_stem(identity.rank, identity.attempt)}"
    path = directory / f"{stem}.ring"
    if archive is None or os.path.lexists(path):  # a killed run of this id may have left it, and then been deleted
        path = directory / f"{stem}-{identity.pid}.ring"
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(path, flags, 0o600)
    try:
        page = form.pack_header(form.RING, capacity, identity, str(archive or ""))
        os.pwrite(fd, page, 0)  # before all else: if the process is killed here, the ring still names its owner
        # A sparse file on a full tmpfs would refuse a later record, so allocate the space now.
        os.posix_fallocate(fd, 0, size)
        memory = private(size)
        memory[: len(page)] = bytes(page)
        write = copying_call()
        mirror = Mirror(memory, map_shared(fd, size), write) if write else FileMirror(memory, OwnFile(os.dup(fd), path))
        # After this only root can truncate it by accident (`> FILE`).
        os.fchmod(fd, 0o400)
        inode = os.fstat(fd).st_ino
    except BaseException:
        os.unlink(path)
        raise
    finally:
        os.close(fd)
    return Ring(path, memory, mirror, inode)
