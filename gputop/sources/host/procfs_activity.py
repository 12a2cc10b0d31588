"""Reads what a process does with files, disks and cores: formats of /proc beside those in ``procfs``, by the same rules.

Readers return ``None`` for a process that is gone and let ``PermissionError`` through. Imports the standard library alone.
"""

from __future__ import annotations

import os
import re
import stat
from typing import NamedTuple

from gputop.sources.host import procfs

NVIDIA_FILES = "/dev/nvidia"
"""How the names of the driver's files begin."""
_MOST_FDS = 4096
"""More open files than this are not searched: one readlink each takes 4 µs."""


class OpenFiles(NamedTuple):
    """What a search of a process's open files found."""

    nvidia: bool | None
    """Whether a /dev/nvidia* file is open; ``None`` when there were too many files to search and none was found."""
    written: tuple[str, ...]
    """Regular files open for writing only, without those that are appended to (logs) or that stand for its output."""


def read_open_files(pid: int) -> OpenFiles | None:
    """Search the open files; ``None`` when the process is gone.

    Raises:
        PermissionError: another user's process.
    """
    folder = f"/proc/{pid}/fd"
    try:
        handles = os.listdir(folder)
    except (FileNotFoundError, ProcessLookupError):
        return None
    nvidia, written, output = False, [], []
    for handle in handles[:_MOST_FDS]:
        try:
            link = os.readlink(f"{folder}/{handle}")
            if link.startswith(NVIDIA_FILES):
                nvidia = True
            elif handle in ("1", "2"):
                output.append(link)
            elif link[0] == "/" and not link.startswith(_NO_FILES) and _writes_only(pid, handle):
                written.append(link)
        except (FileNotFoundError, ProcessLookupError):
            continue  # closed since
    searched = nvidia or len(handles) <= _MOST_FDS
    return OpenFiles(nvidia if searched else None, tuple(link for link in written if link not in output))


_NO_FILES = ("/dev/", "/proc/", "/sys/", "/memfd:")


def _writes_only(pid: int, handle: str) -> bool:
    flags = re.search(rb"^flags:\s*([0-7]+)", procfs.read_line(f"/proc/{pid}/fdinfo/{handle}"), re.MULTILINE)
    bits = int(flags.group(1), 8) if flags else os.O_RDONLY
    if bits & os.O_ACCMODE != os.O_WRONLY or bits & os.O_APPEND:
        return False
    found = os.stat(f"/proc/{pid}/fd/{handle}")
    return stat.S_ISREG(found.st_mode) and found.st_nlink > 0  # without a name it is nobody's checkpoint


class Transfers(NamedTuple):
    """What a process has read and written since it started (/proc/<pid>/io)."""

    read_bytes: int
    """From disks."""
    written_bytes: int
    """Meant for disks: some of it may still be in the page cache."""
    any_written_bytes: int
    """By write calls of any kind, pipes and files in memory included."""


def parse_io(data: bytes) -> Transfers:
    """Parse /proc/<pid>/io.

    Raises:
        ValueError, KeyError: it is none.
    """
    values = {name: int(value) for name, _, value in (line.partition(b":") for line in data.splitlines())}
    return Transfers(values[b"read_bytes"], values[b"write_bytes"], values[b"wchar"])


def read_io(pid: int) -> Transfers | None:
    """Read the process's disk counters; ``None`` when it is gone, or where the kernel does not count.

    Raises:
        PermissionError: another user's process.
    """
    try:
        return parse_io(procfs.read_line(f"/proc/{pid}/io"))
    except (FileNotFoundError, ProcessLookupError, ValueError, KeyError):
        return None


def read_waits_in(pid: int) -> str | None:
    """Read the kernel function in which the main thread sleeps; ``None`` while it runs, and where that is not told."""
    try:
        name = procfs.read_line(f"/proc/{pid}/wchan").decode(errors="replace").strip()
    except OSError:
        return None
    return None if name in ("", "0") else name


def read_involuntary_switches(pid: int) -> int | None:
    """Read how often the main thread was taken off its core though it had work; ``None`` when the process is gone.

    Raises:
        PermissionError: hidepid.
    """
    _, found, rest = (procfs.read_of_process(f"/proc/{pid}/status") or b"").partition(b"\nnonvoluntary_ctxt_switches:")
    return int(rest.split(None, 1)[0]) if found else None


def read_children(pid: int) -> list[int]:
    """Read which processes the main thread has started; empty when it is gone, or where the kernel does not tell."""
    try:
        return [int(child) for child in procfs.read_bytes(f"/proc/{pid}/task/{pid}/children").split()]
    except (OSError, ValueError):
        return []


def parse_cpu_list(text: str) -> tuple[int, ...]:
    """Parse the kernel's lists of cores, "0-3,8,10-11". What is no number is left out."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        if first.isdigit() and (last.isdigit() or not last):
            found.update(range(int(first), int(last or first) + 1))
    return tuple(sorted(found))
