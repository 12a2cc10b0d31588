"""Ranks that use neither a GPU nor much of the CPU: they wait in a rendezvous, or are blocked before their first kernel.

Seven things distinguish them from other Python processes with PyTorch: their environment (RANK and WORLD_SIZE, or what gputop
sets when it starts them and keeps its runs here), the same numbers on their own command line, a launcher above them, a first
rank that started the others with numbers, a listed sibling from multiprocessing, siblings of which just one listens for the
others, as rank 0 does in a rendezvous, or siblings whose stacks all show that they join a process group. What a rank itself has
started (DataLoader workers, compilers) does not count. What never changes is read once per process: about 0.1 ms.
Imports only the standard library, gputop's records, its neighbors, and the reading of stacks.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TypeVar

from gputop.command_line import is_spawned, script_name
from gputop.groups import WORKER_NAME
from gputop.places import state_dir
from gputop.process import LaunchEnvironment, StatedRank
from gputop.sources.host import procfs, procfs_activity
from gputop.sources.host.launchers import ancestry, launcher_name, stated_rank
from gputop.sources.host.process_cache import Facts, ProcessCache
from gputop.sources.python_stacks.joining import Joining

T = TypeVar("T")
_MAX_ANCESTORS = 64
"""Where to stop walking up: real trees of processes are far less deep."""
MEETING_AGE_MIN_S, MEETING_AGE_MAX_S = 5.0, 2400.0
"""Younger processes may not have come to the rendezvous; torch gives up after at most 30 minutes."""
SIBLINGS_MAX = 64
"""More are no ranks of one machine (our choice)."""


class WaitingRanks:
    """Knows which Python processes were started as ranks."""

    def __init__(self, cache: ProcessCache) -> None:
        self._cache = cache
        self._started_as_rank: dict[tuple[int, int, int], bool] = {}
        self._spawned: dict[tuple[int, int, int], bool] = {}
        self._stated: dict[tuple[int, int, int], StatedRank | None] = {}
        self.stated: dict[int, StatedRank] = {}
        """PID -> what its command line, or that of the script that spawned it, says of its number, as of the last search."""
        self._started_by_first: set[int] = set()
        """PIDs of ranks that the first rank of their host has started."""
        self._meeting: set[tuple[int, int, int]] = set()
        """Spawned processes that have been seen with just one among them that listens, or while all joined a process group."""
        self._joining = Joining()
        self._asked: dict[int, dict[int, set[str]]] = {}
        """By parent, the sockets of the spawned processes of which it is known that they do not meet."""
        self.in_rendezvous: frozenset[int] = frozenset()
        """Their PIDs, and those of their siblings, as of the last search."""
        self._below_launcher: dict[int, bool] = {}
        """Results by parent, during one search: the ranks of a launcher share a parent, and so do most other processes."""

    def find(self, pythons: Iterable[Facts], listed: Collection[int], now_s: float) -> set[int]:
        """Return the PIDs of the ranks among this user's Python processes that are not listed for another reason."""
        self._below_launcher = {}
        others = {facts.stat.pid: facts for facts in pythons if facts.stat.comm != WORKER_NAME}
        self._started_as_rank = _kept(self._started_as_rank, others.values())
        self._spawned = _kept(self._spawned, others.values())
        by_first = self._started_by_rank_0(others)
        self.stated = {**self._numbers(others), **by_first}
        self._started_by_first = {pid for pid, numbers in by_first.items() if numbers.local_rank}
        # If a listed process was spawned, its siblings are ranks too.
        parents = {
            facts.stat.ppid for pid, facts in others.items() if pid in listed and self._known(self._spawned, facts, _is_spawned)
        }
        found = {
            pid
            for pid, facts in others.items()
            if pid not in listed
            and (
                pid in self.stated
                or self._known(self._started_as_rank, facts, self._is_rank)
                or (facts.stat.ppid in parents and self._known(self._spawned, facts, _is_spawned))
            )
            and self._cache.torch_mapped(facts, now_s)
        }
        self.in_rendezvous = self._met(others, now_s)
        ranks = found | set(listed)
        found = {pid for pid in found if pid in self._started_by_first or not self._descends_from(pid, ranks)}
        return found | (self.in_rendezvous - set(listed))  # whatever their parent is listed for

    def _numbers(self, others: Mapping[int, Facts]) -> dict[int, StatedRank]:
        """Return the numbers on command lines of processes that have none in their environment.

        The numbers of a script that has spawned or forked others are those of its node, and belong to what it has spawned.
        """
        self._stated = _kept(self._stated, others.values())
        spawned = {pid for pid, facts in others.items() if self._known(self._spawned, facts, _is_spawned)}
        parents = {others[pid].stat.ppid for pid in spawned}
        found: dict[int, StatedRank] = {}
        for pid, facts in others.items():
            own, parent = self._command_says(facts), others.get(facts.stat.ppid)
            if pid in spawned:
                above = self._command_says(parent) if parent is not None else None
                own = above if above is not None and above.node is not None else None
            elif own is None or own.rank is None or pid in parents or (parent is not None and _is_copy(facts, parent)):
                continue
            if own is not None:
                found[pid] = own
        for pid, facts in others.items():
            parent = others.get(facts.stat.ppid)
            if parent is not None and pid not in spawned and _is_copy(facts, parent):
                found.pop(parent.stat.pid, None)
        return found

    def _started_by_rank_0(self, others: Mapping[int, Facts]) -> dict[int, StatedRank]:
        """Return the numbers of ranks whose first one started the others, as Lightning does, and of that first one.

        The others have LOCAL_RANK, NODE_RANK and WORLD_SIZE, but no RANK, and run the first one's script; what the first one
        sets itself is not in its initial environment.
        """
        started: dict[int, dict[int, LaunchEnvironment]] = {}
        for pid, facts in others.items():
            own = self._cache.environment(facts)
            if own is None or own.rank is not None or not own.local_rank or (own.world_size or 0) < 2:
                continue
            parent = others.get(facts.stat.ppid)
            above = self._cache.environment(parent) if parent is not None else None
            if parent is None or above is None or above.local_rank is not None or above.rank is not None:
                continue
            if "NODE_RANK" in dict(own.settings) and self._runs_same_script(facts, parent):
                started.setdefault(facts.stat.ppid, {})[pid] = own
        found: dict[int, StatedRank] = {}
        for first, children in started.items():
            local_size = 1 + max(own.local_rank or 0 for own in children.values())
            number = dict(next(iter(children.values())).settings)["NODE_RANK"]
            base = int(number) * local_size if number.isascii() and number.isdigit() else 0
            world = next(iter(children.values())).world_size
            found[first] = StatedRank(base, world, 0)
            found.update(
                {pid: StatedRank(base + (own.local_rank or 0), world, own.local_rank) for pid, own in children.items()}
            )
        return found

    def _runs_same_script(self, facts: Facts, parent: Facts) -> bool:
        names = [script_name(procfs.command_line_of(one.stat.pid)) for one in (facts, parent)]
        return names[0] is not None and names[0] == names[1]

    def _command_says(self, facts: Facts) -> StatedRank | None:
        key = facts.program
        if key not in self._stated:
            environment = self._cache.environment(facts)
            numbered = environment is not None and environment.rank is not None
            self._stated[key] = None if numbered else stated_rank(procfs.command_line_of(facts.stat.pid))
        return self._stated[key]

    def _met(self, others: Mapping[int, Facts], now_s: float) -> frozenset[int]:
        """Return the spawned processes that wait for each other: RANK and WORLD_SIZE may be set by the script itself."""
        siblings: dict[int, list[Facts]] = {}
        for facts in others.values():
            young = MEETING_AGE_MIN_S <= facts.age_s <= MEETING_AGE_MAX_S
            if young and self._known(self._spawned, facts, _is_spawned):
                siblings.setdefault(facts.stat.ppid, []).append(facts)
        before, self._meeting = self._meeting, set()
        asked, self._asked = self._asked, {}
        found: set[int] = set()
        self._joining.forget_all_but(siblings)
        for parent, spawned in siblings.items():
            node = self.stated.get(spawned[0].stat.pid)
            least = 1 if node is not None else 2
            if not least <= len(spawned) <= SIBLINGS_MAX:
                continue
            if not all(self._cache.torch_mapped(facts, now_s) for facts in spawned):
                continue
            keys, pids = {facts.program for facts in spawned}, [facts.stat.pid for facts in spawned]
            meet = keys <= before
            if not meet:
                sockets = {pid: procfs_activity.read_sockets(pid) for pid in pids}
                # A pool has pipes. The kernel lists all sockets of the machine: it is asked once about the same ones.
                self._asked[parent] = sockets
                meet = any(sockets.values()) and sockets != asked.get(parent) and _one_listens(parent, sockets)
                meet |= node is not None and any(sockets.values())  # the first node's rank 0 listens, and with gloo all do
                meet = meet or self._joining.all_join(parent, pids, now_s)
            if meet:
                self._meeting |= keys
                found.update(pids)
        return frozenset(found)

    def _known(self, known: dict[tuple[int, int, int], bool], facts: Facts, read: Callable[[Facts], bool]) -> bool:
        key = facts.program
        if key not in known:
            known[key] = read(facts)
        return known[key]

    def _is_rank(self, facts: Facts) -> bool:
        environment, parent = self._cache.environment(facts), facts.stat.ppid
        numbered = environment is not None and environment.rank is not None and environment.world_size is not None
        if not numbered and parent not in self._below_launcher:
            self._below_launcher[parent] = ancestry(facts.stat.pid, parent)[1] is not None
        # A launcher also has such numbers if it runs in a container that is itself a node of a larger run.
        ours = environment is not None and environment.gputop_state_dir == str(state_dir())
        is_launcher = launcher_name(procfs.command_line_of(facts.stat.pid)) is not None
        return (numbered or ours or self._below_launcher[parent]) and not is_launcher

    def _descends_from(self, pid: int, ranks: Collection[int]) -> bool:
        for _ in range(_MAX_ANCESTORS):
            facts = self._cache.look_up_if_readable(pid)
            if facts is None or facts.stat.ppid <= 1:
                return False
            pid = facts.stat.ppid
            if pid in ranks:
                return True
        return False


def _is_copy(facts: Facts, parent: Facts) -> bool:
    """Return whether a process was forked by its parent and runs the same program: an exec moves the stack."""
    return 0 != facts.stat.image == parent.stat.image


def _kept(known: dict[tuple[int, int, int], T], found: Iterable[Facts]) -> dict[tuple[int, int, int], T]:
    alive = {facts.program for facts in found}
    return {key: value for key, value in known.items() if key in alive}


def _one_listens(parent: int, sockets: Mapping[int, set[str]]) -> bool:
    """Return whether just one of the siblings listens, and their parent does not: the workers of a server share its socket."""
    ports = procfs_activity.read_listening(parent) or {}
    listen = [pid for pid, held in sockets.items() if not held.isdisjoint(ports)]
    return len(listen) == 1 and procfs_activity.read_sockets(parent).isdisjoint(ports)


def _is_spawned(facts: Facts) -> bool:
    return is_spawned(procfs.command_line_of(facts.stat.pid))
