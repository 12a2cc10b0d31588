"""Reads Linux's /proc: pure parsers, and readers that open one file each.

Owns only the formats of /proc: no caching, no policy. Readers return ``None`` if a process is gone and let
``PermissionError`` through, because the screens distinguish "gone" from "hidden". Imports only the standard library, and not
psutil, whose import takes 20 to 30 ms: a third of the time allowed for the first screen.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

TICKS_PER_S: int = os.sysconf("SC_CLK_TCK")
"""The unit of CPU times and start times in /proc."""
MIN_PERIOD_S = 0.1
"""CPU times count in 10 ms: below this, no share is computed and the previous one stays valid."""
PAGE_BYTES: int = os.sysconf("SC_PAGE_SIZE")
LINE_BYTES = 4096
"""More than any file of one line has."""


class Stat(NamedTuple):
    """The fields of /proc/<pid>/stat (or .../task/<tid>/stat) that gputop uses."""

    pid: int
    comm: str
    state: str
    ppid: int
    cpu_ticks: int
    """User and system time, excluding children."""
    threads: int
    start_ticks: int
    """Ticks since boot; together with the PID it identifies one process, because PIDs are reused."""
    rss_bytes: int
    image: int
    """Address of the stack: changes with each exec; 0 for a zombie and for another user's process."""
    core: int
    """The core on which the main thread (or this thread) last ran."""


def parse_stat(data: bytes) -> Stat:
    """Parse a stat line. The name in parentheses may contain spaces, parentheses and newlines.

    Raises:
        ValueError: the data is not a stat line.
    """
    opening, closing = data.find(b"("), data.rfind(b")")
    fields = data[closing + 1 :].split()
    if opening < 0 or closing < opening or len(fields) < 37:
        raise ValueError(f"not a stat line: {data[:60]!r}")
    return Stat(
        int(data[:opening]),
        data[opening + 1 : closing].decode(errors="replace"),
        fields[0].decode(errors="replace"),
        int(fields[1]),
        int(fields[11]) + int(fields[12]),
        int(fields[17]),
        int(fields[19]),
        int(fields[21]) * PAGE_BYTES,
        int(fields[25]),
        int(fields[36]),
    )


def parse_environ(data: bytes) -> dict[str, str]:
    """Parse /proc/<pid>/environ. Drop entries without "="; of duplicate names, the first counts, as in getenv."""
    found: dict[str, str] = {}
    for entry in data.split(b"\0"):
        name, equals, value = entry.partition(b"=")
        if equals and name:
            found.setdefault(name.decode(errors="replace"), value.decode(errors="replace"))
    return found


def parse_command(data: bytes) -> tuple[str, ...]:
    """Parse /proc/<pid>/cmdline. A process that has set its own title has one argument with spaces and trailing NULs."""
    return tuple(part.decode(errors="replace") for part in data.rstrip(b"\0").split(b"\0")) if data.strip(b"\0") else ()


_CONTAINER_ID = re.compile(r"(?:^|[-:])([0-9a-f]{64})(?:\.scope)?$")
_LXC = re.compile(r"/lxc(?:\.payload[./]|/)([^/]+)")


def parse_container(text: str) -> str | None:
    """Return the short container id in /proc/<pid>/cgroup, or ``None`` outside a container.

    The id has 12 digits for docker, containerd, podman, CRI-O and Kubernetes; for LXC it is the name. It is also ``None`` in
    the process's own cgroup namespace, where the path is "/".
    """
    for line in text.splitlines():
        path = line.split(":", 2)[-1]
        for part in reversed(path.split("/")):
            match = _CONTAINER_ID.search(part)
            if match and "conmon" not in part:  # podman's and CRI-O's monitor runs outside the container
                return match.group(1)[:12]
        lxc = _LXC.search(path)
        if lxc:
            return lxc.group(1)
    return None


def read_bytes(path: str) -> bytes:
    """Read a whole file of /proc, whose size is not known in advance.

    Raises:
        OSError: as from ``open`` and ``read``.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        parts = []
        while data := os.read(handle, 65536):
            parts.append(data)
        return b"".join(parts)
    finally:
        os.close(handle)


def read_line(path: str) -> bytes:
    """Read a file that the kernel returns in one read; a second read, to detect the end, would double the cost.

    Raises:
        OSError: as from ``open`` and ``read``.
    """
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(handle, LINE_BYTES)
    finally:
        os.close(handle)


def read_of_process(path: str) -> bytes | None:
    """Read a whole file of a process; ``None`` if the process is gone."""
    try:
        return read_bytes(path)
    except (FileNotFoundError, ProcessLookupError):
        return None


def read_stat_line(pid: int, thread_id: int | None = None) -> bytes | None:
    """Read the stat line of a process or of one of its threads, not parsed; ``None`` if it is gone.

    Raises:
        PermissionError: /proc is mounted so that other users' processes are hidden (hidepid=1).
    """
    try:
        return read_line(f"/proc/{pid}/stat" if thread_id is None else f"/proc/{pid}/task/{thread_id}/stat")
    except (FileNotFoundError, ProcessLookupError):
        return None


def read_stat(pid: int, thread_id: int | None = None) -> Stat | None:
    """Read and parse the stat line of a process or of one of its threads; ``None`` if it is gone.

    Raises:
        PermissionError: as from ``read_stat_line``.
    """
    try:
        line = read_stat_line(pid, thread_id)
        return None if line is None else parse_stat(line)
    except ValueError:
        return None


def read_thread_stat(pid: int, thread_id: int) -> Stat | None:
    """Read and parse the stat line of a thread; ``None`` if it is gone or hidden."""
    try:
        return read_stat(pid, thread_id)
    except OSError:
        return None


def read_queued_ns(pid: int) -> int | None:
    """Read how many nanoseconds the main thread has waited for a core since it started; ``None`` if that is unknown.

    Raises:
        PermissionError: hidepid.
    """
    words = (read_of_process(f"/proc/{pid}/schedstat") or b"").split()
    return int(words[1]) if len(words) >= 2 and words[1].isdigit() else None


def read_turns(pid: int) -> int | None:
    """Read how often the main thread has been given a core since it started; ``None`` if that is unknown.

    Raises:
        PermissionError: hidepid.
    """
    words = (read_of_process(f"/proc/{pid}/schedstat") or b"").split()
    return int(words[2]) if len(words) >= 3 and words[2].isdigit() else None


def read_children(pid: int) -> list[int]:
    """Read the processes that the main thread has forked; empty if there are none, or the kernel does not list them."""
    try:
        return [int(word) for word in (read_of_process(f"/proc/{pid}/task/{pid}/children") or b"").split()]
    except (OSError, ValueError):
        return []


def read_environ(pid: int) -> dict[str, str] | None:
    """Read the environment at launch; ``None`` if the process is gone or a zombie.

    Raises:
        PermissionError: another user's process.
    """
    return parse_environ(data) if (data := read_of_process(f"/proc/{pid}/environ")) else None


def read_command(pid: int) -> tuple[str, ...] | None:
    """Read the command line; ``None`` if the process is gone, a zombie or a kernel thread.

    Raises:
        PermissionError: hidepid.
    """
    return (parse_command(data) or None) if (data := read_of_process(f"/proc/{pid}/cmdline")) else None


def command_line_of(pid: int) -> tuple[str, ...] | None:
    """Read the command line; ``None`` also if the system hides it."""
    try:
        return read_command(pid)
    except OSError:
        return None


def read_container(pid: int) -> str | None:
    """Read the short id of the container that the process runs in; ``None`` outside a container.

    Raises:
        PermissionError: hidepid.
    """
    data = read_of_process(f"/proc/{pid}/cgroup")
    return parse_container(data.decode(errors="replace")) if data else None


def read_uid(pid: int) -> int | None:
    """Read the real user id from /proc/<pid>/status: the directory's owner is root if the process is not dumpable.

    Raises:
        PermissionError: hidepid.
    """
    data = read_of_process(f"/proc/{pid}/status") or b""
    _, found, rest = data.partition(b"\nUid:")
    return int(rest.split(None, 1)[0]) if found else None


class TorchMaps(NamedTuple):
    """Whether PyTorch's libraries are mapped into a process."""

    torch: bool
    cuda: bool


def find_torch(maps: bytes) -> TorchMaps:
    """Search the text of /proc/<pid>/maps for PyTorch's libraries; the CUDA library implies the CPU one."""
    cuda = b"/libtorch_cuda" in maps
    return TorchMaps(cuda or b"/libtorch_cpu.so" in maps, cuda)


def read_torch_maps(pid: int) -> TorchMaps | None:
    """Read whether PyTorch is mapped; ``None`` if the process is gone or a zombie.

    Raises:
        PermissionError: another user's process.
    """
    data = read_of_process(f"/proc/{pid}/maps")
    return find_torch(data) if data else None


def list_pids() -> set[int]:
    """Return the PIDs that /proc shows."""
    return {int(name) for name in os.listdir("/proc") if name[0].isdigit()}


def list_threads(pid: int) -> list[int]:
    """Return the thread ids of a process; empty if it is gone or hidden from us."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def read_thread_name(pid: int, thread_id: int) -> str | None:
    """Return a thread's name; ``None`` if it is gone or hidden from us."""
    try:
        return read_line(f"/proc/{pid}/task/{thread_id}/comm").rstrip(b"\n").decode(errors="replace")
    except OSError:
        return None


_MEMORY_LINE = re.compile(rb"^(MemTotal|MemAvailable):[ \t]+(\d+) kB$", re.MULTILINE)
"""Two of fifty lines: parsing all of them takes longer than the kernel takes to write them."""


def parse_meminfo(data: bytes) -> dict[str, int]:
    """Parse the total and the available memory of /proc/meminfo into bytes by name."""
    return {name.decode(): int(size) * 1024 for name, size in _MEMORY_LINE.findall(data)}


def read_meminfo() -> dict[str, int]:
    """Read the total and the available memory of the machine into bytes by name; empty if they cannot be read."""
    try:
        return parse_meminfo(read_line("/proc/meminfo"))
    except OSError:
        return {}


class CpuTicks(NamedTuple):
    """CPU time since boot, summed over all cores."""

    busy: int
    total: int


def parse_cpu_ticks(data: bytes) -> CpuTicks:
    """Parse the first line of /proc/stat. Waiting for I/O counts as idle; user time already includes guest time.

    Raises:
        ValueError: the data is not such a line.
    """
    fields = data.split(b"\n", 1)[0].split()
    if len(fields) < 5 or fields[0] != b"cpu":
        raise ValueError(f"not a cpu line: {data[:60]!r}")
    values = [int(field) for field in fields[1:9]]
    idle = values[3] + (values[4] if len(values) > 4 else 0)
    return CpuTicks(sum(values) - idle, sum(values))


def read_cpu_ticks() -> CpuTicks | None:
    """Read the time of all cores; ``None`` if it cannot be read."""
    try:
        return parse_cpu_ticks(read_line("/proc/stat"))
    except (OSError, ValueError):
        return None


def read_own_memory() -> int | None:
    """Read this process's resident memory in bytes; ``None`` if it cannot be read."""
    try:
        return int(read_line("/proc/self/statm").split()[1]) * PAGE_BYTES
    except (OSError, ValueError, IndexError):
        return None


def read_boot_id() -> str | None:
    """Read the id of this boot of the machine; ``None`` if it cannot be read."""
    try:
        return read_bytes("/proc/sys/kernel/random/boot_id").decode(errors="replace").strip() or None
    except OSError:
        return None
