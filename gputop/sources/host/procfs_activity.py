"""Reads a process's activity on files, sockets, disks and cores: further formats of /proc, with the conventions of ``procfs``.

Readers return ``None`` if a process is gone and let ``PermissionError`` through. Imports only the standard library.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from typing import NamedTuple

from gputop.sources.host import procfs

NVIDIA_FILES = "/dev/nvidia"
"""Prefix of the driver's device files."""
_MAX_FDS = 4096
"""Search at most this many open files: each readlink takes 4 µs."""
_LISTEN = b"0A"
_TCP_TABLES = ("tcp", "tcp6")


class OpenFiles(NamedTuple):
    """The result of searching a process's open files."""

    nvidia: bool | None
    """Whether a /dev/nvidia* file is open; ``None`` if there were too many files to search and none was found."""
    written: tuple[str, ...]
    """Regular files open for writing only, without append-mode files (logs) and without the process's own output."""


def read_open_files(pid: int) -> OpenFiles | None:
    """Search the open files; ``None`` if the process is gone.

    Raises:
        PermissionError: another user's process.
    """
    folder = f"/proc/{pid}/fd"
    try:
        handles = os.listdir(folder)
    except (FileNotFoundError, ProcessLookupError):
        return None
    nvidia, written, output = False, [], []
    for handle in handles[:_MAX_FDS]:
        try:
            link = os.readlink(f"{folder}/{handle}")
            if link.startswith(NVIDIA_FILES):
                nvidia = True
            elif handle in ("1", "2"):
                output.append(link)
            elif link[0] == "/" and not link.startswith(_PSEUDO_FILES) and _writes_only(pid, handle):
                written.append(link)
        except (FileNotFoundError, ProcessLookupError):
            continue  # closed in the meantime
    searched = nvidia or len(handles) <= _MAX_FDS
    return OpenFiles(nvidia if searched else None, tuple(link for link in written if link not in output))


_PSEUDO_FILES = ("/dev/", "/proc/", "/sys/", "/memfd:")


def _writes_only(pid: int, handle: str) -> bool:
    flags = re.search(rb"^flags:\s*([0-7]+)", procfs.read_line(f"/proc/{pid}/fdinfo/{handle}"), re.MULTILINE)
    bits = int(flags.group(1), 8) if flags else os.O_RDONLY
    if bits & os.O_ACCMODE != os.O_WRONLY or bits & os.O_APPEND:
        return False
    found = os.stat(f"/proc/{pid}/fd/{handle}")
    return stat.S_ISREG(found.st_mode) and found.st_nlink > 0  # a file without a name is not a checkpoint


def prints_away(pid: int) -> bool:
    """Return whether a process's standard output or error is a file or a pipe. Measured: 0.01 ms."""
    for handle in ("1", "2"):
        with suppress(OSError):
            mode = os.stat(f"/proc/{pid}/fd/{handle}").st_mode
            if stat.S_ISREG(mode) or stat.S_ISFIFO(mode):
                return True
    return False


def read_listening(pid: int | None = None) -> dict[str, int] | None:
    """Return what a descriptor of each listening TCP socket leads to ("socket:[…]"), and its port; None if that is hidden.

    The kernel lists all sockets of a network namespace, of which there may be a hundred thousand: ask only when needed.
    ``pid`` names the process whose network namespace is meant; None: this one.
    """
    found: dict[str, int] = {}
    readable = False
    for table in _TCP_TABLES:
        try:
            lines = procfs.read_bytes(f"/proc/{'self' if pid is None else pid}/net/{table}").splitlines()[1:]
        except OSError:
            continue
        readable = True
        for line in lines:
            fields = line.split()
            if len(fields) > 9 and fields[3] == _LISTEN:
                found[f"socket:[{fields[9].decode()}]"] = int(fields[1].rpartition(b":")[2], 16)
    return found if readable else None


def read_sockets(pid: int) -> set[str]:
    """Return what the descriptors of a process's sockets lead to; empty for another user's process."""
    found = set()
    with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as files:
        for file in files:
            with suppress(OSError):  # closed meanwhile
                target = os.readlink(file.path)
                if target.startswith("socket:["):
                    found.add(target)
    return found


class Transfers(NamedTuple):
    """What a process has read and written since it started (/proc/<pid>/io)."""

    read_bytes: int
    """Bytes read from disks."""
    written_bytes: int
    """Bytes to be written to disks: some may still be in the page cache."""
    any_written_bytes: int
    """Bytes passed to write calls of any kind, including pipes and files in memory."""
    any_read_bytes: int
    """Bytes returned by read calls of any kind, including the page cache and pipes."""


def parse_io(data: bytes) -> Transfers:
    """Parse /proc/<pid>/io.

    Raises:
        ValueError, KeyError: the data is not such a file.
    """
    values = {name: int(value) for name, _, value in (line.partition(b":") for line in data.splitlines())}
    return Transfers(values[b"read_bytes"], values[b"write_bytes"], values[b"wchar"], values[b"rchar"])


def read_io(pid: int) -> Transfers | None:
    """Read the process's disk counters; ``None`` if the process is gone or the kernel does not count.

    Raises:
        PermissionError: another user's process.
    """
    try:
        return parse_io(procfs.read_line(f"/proc/{pid}/io"))
    except (FileNotFoundError, ProcessLookupError, ValueError, KeyError):
        return None


def read_waits_in(pid: int) -> str | None:
    """Read the kernel function in which the main thread sleeps; ``None`` while it runs, or if it is hidden."""
    try:
        name = procfs.read_line(f"/proc/{pid}/wchan").decode(errors="replace").strip()
    except OSError:
        return None
    return None if name in ("", "0") else name


def read_involuntary_switches(pid: int) -> int | None:
    """Read how often the main thread was preempted while it had work to do; ``None`` if the process is gone.

    Raises:
        PermissionError: hidepid.
    """
    _, found, rest = (procfs.read_of_process(f"/proc/{pid}/status") or b"").partition(b"\nnonvoluntary_ctxt_switches:")
    return int(rest.split(None, 1)[0]) if found else None


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Parse the kernel's lists of cores, "0-3,8,10-11"; skip anything that is not a number."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last.isdigit() or not last):
            found.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(found))
