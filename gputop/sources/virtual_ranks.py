"""Which processes are ranks that work as virtual GPUs: those that their environment marks, or that such a process started.

Imports only the standard library and gputop's records; reads through ``host/process_cache`` and ``procfs``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gputop.sources.host import procfs
from gputop.sources.host.launchers import launcher_name
from gputop.sources.host.process_cache import Facts, ProcessCache

CONNECTED = "pt_gloo_runloop"
"""gloo starts threads of this name in a process once it is connected to the other ranks."""
Started = dict[tuple[int, int], tuple[int, int]]
"""The ranks that processes with only a mask have started, by PID and start time: that process's PID, and the rank's place in
the mask."""


def ranks(cache: ProcessCache, claiming: frozenset[int], now_s: float, every_s: float, started: Started) -> list[Facts]:
    """Return the processes that their environment marks as ranks, except launchers, workers and those with a claim.

    /proc is searched at most every ``every_s`` seconds. ``started`` is brought up to date: the ranks among the children of
    processes that have only a mask.
    """
    marked = {}
    for facts in cache.pythons(now_s, every_s):
        environment = cache.environment(facts)
        if environment is None or (environment.local_rank is None and environment.virtual_devices is None):
            continue
        if facts.stat.comm != "pt_data_worker" and cache.torch_mapped(facts, now_s):
            marked[facts.stat.pid] = facts
    parents: dict[int, int] = {}
    above = {pid: _ancestors(cache, pid, parents) for pid in (*marked, *claiming)}
    numbered = {pid for pid, facts in marked.items() if facts.environment and facts.environment.local_rank is not None}
    leads = {parent for pid in (*numbered, *claiming) for parent in above[pid]}
    masked = {pid for pid in marked if pid not in numbered and pid not in leads and not _launches(pid)}
    _find_started(marked, masked, started)
    spawning = {parent for parent, _ in started.values()}
    masked = {
        pid for pid in masked - spawning if marked[pid].key in started or not spawning.intersection(above[pid])
    }  # what else such a process has started is no rank: it has not connected, and may never do so
    working = numbered | masked | claiming
    return [marked[pid] for pid in sorted(numbered | masked) if pid not in claiming and not working.intersection(above[pid])]


def _find_started(marked: Mapping[int, Facts], masked: Iterable[int], started: Started) -> None:
    """Note the ranks that masked processes have started, in the order of their starts, and forget those that are gone.

    A search may find one rank connected before another that was started earlier: a new one may move others to other places.
    """
    alive = {facts.key: facts for facts in marked.values()}
    for key in [key for key in started if key not in alive]:
        del started[key]
    known = set(masked)
    new = [facts for pid in known if (facts := marked[pid]).stat.ppid in known and facts.key not in started]
    found = {
        facts.key: facts.stat.ppid for facts in new if _is_connected(facts.stat.pid) and not _is_connected(facts.stat.ppid)
    }
    for parent in set(found.values()):
        ranks = {key for key, (of, _) in started.items() if of == parent} | {key for key, of in found.items() if of == parent}
        in_order = sorted(ranks, key=lambda key: (key[1], key[0]))
        started.update((key, (parent, place)) for place, key in enumerate(in_order))


def _is_connected(pid: int) -> bool:
    return any(procfs.read_thread_name(pid, thread) == CONNECTED for thread in procfs.list_threads(pid))


def _launches(pid: int) -> bool:
    try:
        return launcher_name(procfs.read_command(pid)) is not None
    except OSError:
        return False


def _ancestors(cache: ProcessCache, pid: int, parents: dict[int, int]) -> set[int]:
    """Return the ancestors of ``pid``; ``parents`` caches what was read for processes that share them."""
    found: set[int] = set()
    while True:
        parent = parents.get(pid)
        if parent is None:
            facts = cache.look_up_if_readable(pid)
            parent = parents[pid] = facts.stat.ppid if facts else 0
        if parent <= 1 or parent in found:
            return found
        found.add(parent)
        pid = parent
