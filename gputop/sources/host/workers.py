"""The DataLoader workers of processes: children that torch names pt_data_worker.

This user's workers are found among the Python processes that the cache reads every two seconds anyway, whichever thread forked
them; another user's (seen by root) among the children of the main thread. From Python 3.14 on, most are children of a fork
server of multiprocessing, which is the child. Imports only the standard library and its neighbors.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from gputop.command_line import is_fork_server
from gputop.groups import WORKER_NAME as NAME
from gputop.process import DEAD_STATES
from gputop.snapshot import Workers
from gputop.sources.host import procfs
from gputop.sources.host.process_cache import Facts, ProcessCache


@dataclass(slots=True)
class _Seen:
    """The CPU time of a worker when it was last read."""

    ticks: int
    at_s: float
    cpu_percent: float | None = None


class WorkerBook:
    """Knows the workers of each process, as of the last ``take``."""

    def __init__(self) -> None:
        self._workers: dict[int, Workers] = {}
        self._seen: dict[tuple[int, int], _Seen] = {}

    def of(self, pid: int) -> Workers | None:
        """Return the workers of a process; ``None`` if there are none."""
        return self._workers.get(pid)

    def take(self, found: Iterable[Facts], now_s: float) -> None:
        """Update from the current processes; CPU shares cover the time since the previous call."""
        families: dict[int, dict[int, Facts]] = {}
        for facts in found:
            if facts.stat.comm == NAME and facts.stat.state not in DEAD_STATES:
                families.setdefault(facts.stat.ppid, {})[facts.stat.pid] = facts
        for parent in [*families]:
            served = works_for(parent)
            if served != parent:
                families[served] = families.get(served, {}) | families.pop(parent)
        seen, self._seen = self._seen, {}
        self._workers = {pid: self._family(list(members.values()), seen, now_s) for pid, members in families.items()}

    def _family(self, members: list[Facts], seen: dict[tuple[int, int], _Seen], now_s: float) -> Workers:
        shares = []
        cores: set[int] = set()
        for facts in members:
            share = self._share(facts, seen.get(facts.key), now_s)
            if share is not None:
                shares.append(share)
            cores |= cores_allowed(facts.stat.pid) or set()
        return Workers(
            count=len(members),
            cpu_percent=sum(shares) if shares else None,
            blocked=sum(facts.stat.state == "D" for facts in members),
            cores_allowed=len(cores) or None,
            pids=tuple(sorted(facts.stat.pid for facts in members)),
        )

    def _share(self, facts: Facts, before: _Seen | None, now_s: float) -> float | None:
        ticks = facts.stat.cpu_ticks
        if before is not None and now_s - before.at_s < procfs.MIN_PERIOD_S:
            self._seen[facts.key] = before
            return before.cpu_percent
        share = None
        if before is not None:
            share = 100 * max(0, ticks - before.ticks) / procfs.TICKS_PER_S / (now_s - before.at_s)
        self._seen[facts.key] = _Seen(ticks, now_s, share)
        return share


def works_for(parent: int) -> int:
    """Return for whom a process works, given its parent: for the parent of that one if it is a fork server."""
    with suppress(OSError):
        command = procfs.read_command(parent)
        stat = procfs.read_stat(parent) if is_fork_server(command) else None
        above = procfs.read_stat(stat.ppid) if stat is not None else None
        if stat is not None and above is not None:
            # What a fork server has forked has its command line and its image, and may have children, too.
            forked = stat.image == above.image if stat.image else command == procfs.read_command(above.pid)
            return parent if forked else above.pid
    return parent


def read_children(pid: int) -> list[int]:
    """Read the children of a process, as far as its main thread has started them, and those of its fork server."""
    children = procfs.read_children(pid)
    servers = [child for child in children if is_fork_server(procfs.command_line_of(child)) and works_for(child) == pid]
    return [*children, *(grandchild for server in servers for grandchild in procfs.read_children(server))]


def workers_of_others(cache: ProcessCache, pids: Iterable[int]) -> list[Facts]:
    """Find the children of processes that belong to other users, whose Python processes are not in the cache."""
    children = {child for pid in pids for child in read_children(pid)}
    return [facts for facts in map(cache.look_up_if_readable, children) if facts is not None]


def cores_allowed(pid: int) -> set[int] | None:
    """Return the cores that a process may run on; ``None`` if it is gone."""
    try:
        return os.sched_getaffinity(pid)
    except OSError:
        return None
