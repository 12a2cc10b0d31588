"""Whether the ranks of a run are connected, as their sockets show: to each other, to their launcher, or where they meet.

The ranks of a real world are: through the store of torch.distributed, gloo's pairs, NCCL's bootstrap, or gRPC. Ranks that never
joined a process group hold no such socket, though they may have connections to a logger or a hub.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from gputop.groups import GROUP_THREADS
from gputop.process import ProcessRun
from gputop.sources.host import procfs, procfs_activity

_PORT_DIGITS = 5
_NO_PEER = 0
"""The port of the other side of a socket that listens."""


class Socket(NamedTuple):
    """A TCP socket: its own port, that of the other side, and its name in /proc/<pid>/fd."""

    name: str
    port: int
    peer: int


def connected(run: ProcessRun, *, settled: bool = False) -> bool | None:
    """Return whether a rank holds a TCP socket to another process of the run, or to the port where they meet.

    None if that is unknown: a process is gone, another user's or in another network, or a rank still listens. A rank with a
    process group listens, too, if it is alone in it: once the run is ``settled``, that counts as not connected.
    """
    pids = [rank.pid for rank in run.ranks]
    held = {pid: procfs_activity.read_sockets(pid) for pid in pids}
    if run.launcher is not None:
        held[run.launcher.pid] = procfs_activity.read_sockets(run.launcher.pid)
    try:
        table = {socket.name: socket for socket in _sockets(pids[0])}
        readable = all(map(_is_readable, pids)) and len({os.readlink(f"/proc/{pid}/ns/net") for pid in pids}) == 1
    except OSError:
        return None
    meets_at = {port for pid in pids if (port := _meeting_port(pid)) is not None}
    own = {pid: [table[name] for name in names if name in table] for pid, names in held.items()}
    if any(meets_at & {item.port, item.peer} for pid in pids for item in own[pid]) or _meet(own, pids):
        return True
    listening = [pid for pid in pids if any(item.peer == _NO_PEER for item in own[pid])]
    waits = bool(listening) and not (settled and all(map(_has_group, listening)))
    return None if not readable or waits else False


def _meet(own: Mapping[int, Sequence[Socket]], pids: Iterable[int]) -> bool:
    """Return whether a socket of a rank leads to one of another process. All are on this machine, so ports are enough."""
    for pid in pids:
        others = [item for partner in own if partner != pid for item in own[partner]]
        ends = {(item.peer, item.port) for item in others} | {(_NO_PEER, item.port) for item in others if not item.peer}
        if any(item.peer and not ends.isdisjoint(((item.port, item.peer), (_NO_PEER, item.peer))) for item in own[pid]):
            return True
    return False


def _meeting_port(pid: int) -> int | None:
    try:
        port = (procfs.read_environ(pid) or {}).get("MASTER_PORT", "")
    except OSError:
        return None
    return int(port) if port.isascii() and port.isdigit() and len(port) <= _PORT_DIGITS else None


def _has_group(pid: int) -> bool:
    """Return whether NCCL or gloo has started threads in a process."""
    names = (procfs.read_thread_name(pid, thread) for thread in procfs.list_threads(pid))
    return any(name is not None and name.startswith(GROUP_THREADS) for name in names)


def _is_readable(pid: int) -> bool:
    """Return whether its descriptors are listed: they are another user's secret."""
    try:
        return bool(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return False


def _sockets(pid: int) -> list[Socket]:
    """Return the TCP sockets of a process's network namespace.

    Raises:
        OSError: they cannot be read.
    """
    found = []
    for table in ("tcp", "tcp6"):
        for line in procfs.read_bytes(f"/proc/{pid}/net/{table}").splitlines()[1:]:
            fields = line.split()
            if len(fields) > 9:
                port, peer = (int(field.rpartition(b":")[2], 16) for field in fields[1:3])
                found.append(Socket(f"socket:[{fields[9].decode()}]", port, peer))
    return found
