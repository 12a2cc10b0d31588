"""Which processes listen where NCCL's RAS service is asked. Several may share the port, and the kernel picks which one answers.

A process may use NCCL without torch, and nothing else about it shows that: JAX, CuPy, NVIDIA's own tests. Reads /proc only.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Set
from pathlib import Path

_LISTENS = "0A"
"""TCP_LISTEN in the tables of the kernel."""
_TABLES = ("net/tcp", "net/tcp6")


def only_these_listen(port: int, pids: Set[int], proc: Path = Path("/proc")) -> bool:
    """Return whether each socket that listens at a TCP port of this machine belongs to one of these processes.

    False where that cannot be known. A port counts at all addresses: "localhost" may be either one.
    """
    try:
        inodes = {inode for table in _TABLES for inode in _listening(proc / table, port)}
    except (OSError, ValueError):
        return False
    return inodes <= {inode for pid in pids for inode in _sockets(proc / str(pid) / "fd")} if inodes else True


def _listening(table: Path, port: int) -> Iterator[str]:
    """Yield the inodes of the sockets that listen at a port."""
    if not table.exists():
        return  # this kernel has no IPv6
    with table.open(encoding="ascii", errors="replace") as lines:
        next(lines, "")
        for line in lines:
            cells = line.split()
            if len(cells) > 9 and cells[3] == _LISTENS and int(cells[1].rpartition(":")[2], 16) == port:
                yield cells[9]


def _sockets(folder: Path) -> Iterable[str]:
    """Yield the inodes of a process's sockets; none if they cannot be read."""
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                try:
                    target = os.readlink(entry.path)
                except OSError:
                    continue  # closed meanwhile
                if target.startswith("socket:["):
                    yield target[len("socket:[") : -1]
    except OSError:
        return
