"""Chooses where a run's files go: rings on tmpfs, archives on a local disk; and checks that a directory is safe to use.

/dev/shm and /var/tmp are shared with other users, so each directory below them is checked to be a real directory of this
user, closed to everyone else. Its last component is a hash of the runs directory, so that two state directories
(``GPUTOP_DIR``) of one user never mix.
"""

from __future__ import annotations

import os
import stat
import zlib
from pathlib import Path

from gputop.places import make_private_dir

_NETWORK_NAMES = (
    "nfs,nfs4,cifs,smb3,smbfs,lustre,gpfs,ceph,beegfs,glusterfs,panfs,wekafs,afs,9p,virtiofs,orangefs,pvfs2,ocfs2,gfs2"
)
NETWORK_FILE_SYSTEMS = frozenset(_NETWORK_NAMES.split(","))
"""An append to one of these can block as long as its server is unreachable, in a state that no signal interrupts."""


def file_system(path: Path) -> str | None:
    """Return the type of the file system under ``path`` from /proc/self/mountinfo, without accessing it; None if unknown."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    wanted = os.path.realpath(path)
    best, kind = "", None
    for line in mounts:
        left, _, right = line.partition(" - ")
        fields, kinds = left.split(), right.split()
        if len(fields) < 5 or not kinds:
            continue
        mount = fields[4].encode("utf-8", "surrogateescape").decode("unicode_escape", "replace")
        inside = wanted == mount or wanted.startswith(mount.rstrip("/") + "/")
        if inside and len(mount) >= len(best):
            best, kind = mount, kinds[0]
    return kind


def is_network(kind: str | None) -> bool:
    """Return whether a live append there could block on a server; unknown counts as yes."""
    return kind is None or kind in NETWORK_FILE_SYSTEMS or kind.startswith("fuse")


def mark(runs_dir: Path) -> str:
    """Return a short hash that identifies a runs directory."""
    return f"{zlib.crc32(os.fsencode(os.path.abspath(runs_dir))):08x}"


def live_dirs(runs_dir: Path) -> list[Path]:
    """Return the directories that may hold rings of ``runs_dir``, best first; only those on tmpfs."""
    own = f"gputop-{os.geteuid()}"
    candidates = [Path("/dev/shm") / own]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime:
        candidates.append(Path(runtime) / "gputop")
    candidates.append(Path("/tmp") / own)
    # The parent's file system: another user may have put a link there, which must not be followed.
    return [path / mark(runs_dir) for path in candidates if file_system(path.parent) in ("tmpfs", "ramfs")]


def archive_roots(runs_dir: Path) -> list[Path]:
    """Return the parents of run directories: ``runs_dir``, and its local substitute if it is on a network file system."""
    return [runs_dir, Path(f"/var/tmp/gputop-{os.geteuid()}") / mark(runs_dir)]


def archive_root(runs_dir: Path) -> Path:
    """Return the parent directory for a new run."""
    own, local = archive_roots(runs_dir)
    return local if is_network(file_system(runs_dir)) else own


def secure_dir(path: Path) -> Path:
    """Create a directory below a shared one, and its parent, and check both.

    Raises:
        OSError: one of them cannot be created, is a link, belongs to another user, or is open to others.
    """
    for part in (path.parent, path):
        # Before it is created: a directory that was open may contain other users' files.
        if part.exists() and stat.S_IMODE(part.lstat().st_mode) & 0o077:
            raise PermissionError(f"{part} is open to other users")
        make_private_dir(part)
    return path


def obstacle(path: Path) -> str | None:
    """Return what is wrong with a directory below a shared one, or with its parent; None if nothing is."""
    for part in (path.parent, path):
        try:
            found = part.lstat()
        except OSError:
            return None
        if not stat.S_ISDIR(found.st_mode):
            return f"{part} is not a directory"
        if found.st_uid != os.geteuid():
            return f"{part} belongs to another user"
        if stat.S_IMODE(found.st_mode) & 0o077:
            return f"{part} is open to other users"
    return None


def is_ours(path: Path) -> bool:
    """Return whether ``path`` is a directory of this user and not a link."""
    try:
        found = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def entries(directory: Path) -> list[os.DirEntry[str]]:
    """Return what a directory holds; [] if it cannot be listed."""
    try:
        with os.scandir(directory) as found:
            return list(found)
    except OSError:
        return []
