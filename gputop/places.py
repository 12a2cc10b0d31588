"""Where gputop keeps its files, and how to create a directory, read a file and replace one safely. Imports only the standard
library.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import BinaryIO

TEXT_MAX_BYTES = 1 << 20
"""The largest file that is read as a user's text."""
WRITER_S = 5.0
"""How long a named pipe may have no writer: both may be started at the same time."""


def home_dir() -> Path:
    """Return the home directory; "/", as container engines do, for a user without HOME and without an entry in passwd."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


def working_dir() -> str:
    """Return the working directory. If it was deleted, return its name as the kernel gives it, "/place (deleted)": whoever
    starts something there finds no such folder.
    """
    try:
        return os.getcwd()
    except FileNotFoundError:
        return os.readlink("/proc/self/cwd")


def state_dir(environment: Mapping[str, str] = os.environ) -> Path:
    """Return where runs and jobs live: ``$GPUTOP_DIR``, else ``$XDG_STATE_HOME/gputop``, else ``~/.local/state/gputop``.

    ``environment`` is that of another process, to find its runs.
    """
    home = environment.get("HOME") if environment is not os.environ else None
    return _state_dir(environment.get("GPUTOP_DIR"), environment.get("XDG_STATE_HOME"), home, os.environ.get("HOME"))


@lru_cache(maxsize=64)
def _state_dir(own: str | None, base: str | None, home: str | None, our_home: str | None) -> Path:
    """Return where runs and jobs live. Cached, because every reading asks; ``our_home`` is what "~" stands for."""
    if own:
        return _expanded(own)
    if base:
        return Path(base) / "gputop"
    return (Path(home) if home else home_dir()) / ".local" / "state" / "gputop"


def runs_dir() -> Path:
    """Return the directory with one directory per run."""
    return state_dir() / "runs"


def jobs_dir() -> Path:
    """Return the directory with one directory per launched job."""
    return state_dir() / "jobs"


def config_path() -> Path:
    """Return the settings file: ``$GPUTOP_CONFIG``, else ``$XDG_CONFIG_HOME/gputop/config.toml``, else below ``~/.config``."""
    own = os.environ.get("GPUTOP_CONFIG")
    if own:
        return _expanded(own)
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else home_dir() / ".config") / "gputop" / "config.toml"


def read_text(path: Path, private: bool = False) -> str:
    """Return the text of a file that a user may have written; that of /dev/null is empty.

    ``private``: nobody but this user and root may have written it.

    Raises:
        OSError: it cannot be read, is a pipe or a device, which might never end, is larger than ``TEXT_MAX_BYTES``, or is not
            private.
        UnicodeDecodeError: it is not UTF-8.
    """
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode) and found.st_rdev != os.stat(os.devnull).st_rdev:
            raise OSError(errno.EINVAL, "it is not a file", str(path))
        if private and (found.st_uid not in (0, os.geteuid(), _outside_uid()) or found.st_mode & stat.S_IWOTH):
            raise PermissionError(errno.EPERM, "another user can write it", str(path))
        with os.fdopen(handle, "rb", closefd=False) as file:
            content = file.read(TEXT_MAX_BYTES + 1)
    finally:
        os.close(handle)
    if len(content) > TEXT_MAX_BYTES:
        raise OSError(errno.EFBIG, "it is larger than a megabyte", str(path))
    return content.decode("utf-8")


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading. Never follows a link, and never waits for a pipe or a device.

    Raises:
        OSError: it cannot be opened, or is of another kind.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise OSError(errno.ELOOP, "it is a link", str(path)) from error
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is not a file", str(path))
        return os.fdopen(handle, "rb")
    except OSError:
        os.close(handle)  # os.fdopen leaves that of a directory open
        raise


def open_or_pipe(path: Path) -> BinaryIO | None:
    """Open a file, or a named pipe once a program has opened it to write; return None if none does within ``WRITER_S``.

    Raises:
        OSError: it cannot be opened.
    """
    if not stat.S_ISFIFO(path.stat().st_mode):
        file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK | os.O_NOCTTY))  # noqa: SIM115
        os.set_blocking(file.fileno(), True)
        return file
    import queue  # rarely used: ``import gputop`` stays cheap
    import threading

    found: queue.SimpleQueue[BinaryIO] = queue.SimpleQueue()
    # Opening a named pipe waits for that program.
    threading.Thread(target=lambda: found.put(path.open("rb")), daemon=True).start()
    try:
        return found.get(timeout=WRITER_S)
    except queue.Empty:
        with contextlib.suppress(OSError):
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC))  # ends that wait
        return None


def replace_file(path: Path, content: bytes, *, keep_link: bool = False) -> None:
    """Replace the content of ``path`` as a whole, mode 0600 whatever the umask: readers see the old content or the new.

    ``keep_link``: if ``path`` is a symbolic link, replace the file that it names, and not the link.

    Raises:
        OSError: the disk is full, or the directory is missing or cannot be written. The old content is still there.
    """
    target = Path(os.path.realpath(path)) if keep_link else path
    new = target.with_name(f".{target.name}-{os.urandom(4).hex()}")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            os.fchmod(handle, 0o600)
            file.write(content)
        os.replace(new, target)
    except BaseException:
        new.unlink(missing_ok=True)
        raise


def _expanded(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError:  # the home directory of a user who does not exist
        return Path(path)


def make_private_dir(path: Path) -> Path:
    """Create ``path`` and its missing parents with mode 0700, whatever the umask, and check that nobody else can replace it.

    If ``path`` exists and other users may write it, its mode becomes 0700.

    Raises:
        OSError: ``path`` cannot be created, is a symbolic link, is not a directory, or belongs to another user; or another
            user can replace it, see ``check_parents``.
    """
    check_parents(path)
    create_dirs(path)
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(f"{path} is not a directory of this user")
    if _is_open(found):
        path.chmod(0o700)
    return path


def why_unlisted(directory: Path) -> str | None:
    """Return why the runs or jobs in a directory cannot be listed; None if they can, or if there is none.

    A link is not followed: nothing is written through one either, see ``make_private_dir``.
    """
    try:
        if stat.S_ISLNK(directory.lstat().st_mode):
            return "it is a link, which gputop does not follow"
        os.scandir(directory).close()
    except FileNotFoundError:
        return None
    except OSError as error:
        return error.strerror or str(error)
    return None


def check_parents(path: Path, setting: str = "$GPUTOP_DIR") -> None:
    """Check that only this user and root can replace ``path``, judging by the directories and links on the way to it.

    ``setting`` is what chooses another place for it.

    Raises:
        OSError: one of them is not a directory or belongs to another user, or others may write it and it has no sticky bit.
    """
    own = (0, os.geteuid(), _outside_uid())
    way = [path.absolute()]
    seen: set[Path] = set()
    while way:
        for parent in way.pop().parents:
            if parent in seen:
                continue
            seen.add(parent)
            try:
                link, found = parent.lstat(), parent.stat()
            except FileNotFoundError:
                continue
            if stat.S_ISLNK(link.st_mode):
                if link.st_uid not in own and parent.parent.stat().st_mode & stat.S_IWOTH:
                    raise PermissionError(f"{parent} is a link of another user: choose another {setting}")
                way.append(parent.parent / os.readlink(parent) / "_")
            if not stat.S_ISDIR(found.st_mode):
                raise NotADirectoryError(f"{parent} is not a directory: choose another {setting}")
            if found.st_uid not in own:
                raise PermissionError(f"{parent} belongs to another user, who could replace {path}: choose another {setting}")
            if _is_open(found):
                raise PermissionError(f"every user can replace {path}: remove their right with chmod o-w {parent}")


def create_dirs(path: Path) -> None:
    """Create ``path`` and its missing parents with mode 0700, whatever the umask.

    Raises:
        OSError: one of them cannot be created.
    """
    for part in (*reversed(path.parents), path):
        if not part.exists():
            with contextlib.suppress(FileExistsError):  # a link to nowhere, or another process was first
                part.mkdir(mode=0o700)
                part.chmod(0o700)  # the umask may have removed rights of the owner


def _is_open(found: os.stat_result) -> bool:
    """Return whether every user can rename what is in a directory.

    A group that can is trusted: it may have one member or a thousand, which nothing here can tell, and clusters give project
    and home directories to such groups. Its members can take files away; what they put there belongs to them, and is refused.
    """
    return bool(found.st_mode & stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX


def _outside_uid() -> int:
    """Return the user that represents all users outside this user namespace, including root; -1 if there are none."""
    try:
        everybody_inside = Path("/proc/self/uid_map").read_text().split() == ["0", "0", "4294967295"]
        return -1 if everybody_inside else int(Path("/proc/sys/kernel/overflowuid").read_text())
    except (OSError, ValueError):
        return -1
