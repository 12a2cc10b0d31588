"""Launchers of other users that wait for other nodes: by their command alone, because their environment is hidden.

On a shared machine, somebody else's torchrun may be what a group waits for. Imports only the standard library, gputop's
records and its neighbors.
"""

from __future__ import annotations

import os
import pwd
import time
from collections.abc import Iterable
from dataclasses import replace

from gputop.process import DEAD_STATES, WaitingLauncher
from gputop.sources.host import procfs
from gputop.sources.host.launchers import launcher_name
from gputop.sources.host.process_cache import ProcessCache
from gputop.sources.host.rendezvous import WITHOUT_VALUE, is_waiting, read_launcher

SEARCH_S = 30.0
"""How often to read the commands of other users' processes: 0.03 ms each."""


class LaunchersOfOthers:
    """Knows which processes of other users are such launchers, as of the last search."""

    def __init__(self, cache: ProcessCache) -> None:
        self._cache = cache
        self._found: tuple[WaitingLauncher, ...] = ()
        self._searched_s = -SEARCH_S

    def find(self, now_s: float) -> tuple[WaitingLauncher, ...]:
        """Return those that need other nodes and have no child, by PID; search /proc every ``SEARCH_S`` seconds."""
        if now_s - self._searched_s >= SEARCH_S:
            self._searched_s = now_s
            self._found = tuple(_alone(_launchers(os.geteuid())))
        waiting = []
        for launcher in self._found:
            facts = self._cache.look_up_if_readable(launcher.pid, now_s)
            if facts is not None and facts.stat.state not in DEAD_STATES and is_waiting(facts):
                waiting.append(replace(launcher, started_at=time.time() - facts.age_s))
        return tuple(waiting)


def _launchers(own_uid: int) -> Iterable[WaitingLauncher]:
    """Yield the launchers of other users that need other nodes, by their command."""
    for pid in sorted(procfs.list_pids()):
        try:
            uid = os.stat(f"/proc/{pid}").st_uid
        except OSError:
            continue
        command = procfs.command_line_of(pid) if uid != own_uid else None
        if command is not None and launcher_name(command) in WITHOUT_VALUE:
            launcher = read_launcher(pid, command, {}, None)
            if launcher is not None:
                yield replace(launcher, user=_name(uid))


def _alone(launchers: Iterable[WaitingLauncher]) -> list[WaitingLauncher]:
    """Return those without a child: the kernel may not list the children of a process."""
    found = list(launchers)
    if not found:
        return found
    parents = {stat.ppid for pid in procfs.list_pids() if (stat := _stat(pid)) is not None}
    return [launcher for launcher in found if launcher.pid not in parents]


def _stat(pid: int) -> procfs.Stat | None:
    try:
        return procfs.read_stat(pid)
    except (OSError, ValueError):
        return None


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:  # a user of the host, seen from a container
        return str(uid)
