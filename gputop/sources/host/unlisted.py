"""Training that no device and no journal lists: what trains on the CPU, and ranks that wait.

Owns ``UnlistedTrainings``, which searches this user's Python processes, and the record of DataLoader workers, which the same
search keeps. Imports only the standard library, gputop's records and its neighbors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from itertools import chain, islice, takewhile

from gputop.command_line import is_tool
from gputop.groups import WORKER_NAME
from gputop.process import StatedRank, WaitingLauncher
from gputop.sources.host import procfs, procfs_activity
from gputop.sources.host.launchers import PROGRAMS, PythonLaunchers
from gputop.sources.host.launchers_of_others import LaunchersOfOthers
from gputop.sources.host.process_cache import Facts, ProcessCache
from gputop.sources.host.rendezvous import WaitingLaunchers
from gputop.sources.host.waiting_ranks import WaitingRanks
from gputop.sources.host.waits import read_child_woken_by
from gputop.sources.host.workers import WorkerBook, workers_of_others, works_for

SCAN_S = 2.0
"""How often to search /proc for training on the CPU."""
TRAINING_CPU_PERCENT = 50.0
"""A Python process with PyTorch that uses more than this of one core looks like training."""
CROWDED_CPU_PERCENT = 10.0
"""So does one that uses more than this, if it waits for a core for most of the rest: several processes share the cores."""
TRAINING_AGE_S = 5.0
"""A younger process is still importing, which also keeps it busy."""
TRAINING_LINGER_S = 30.0
TRAINING_LINGER_MAX_S = 600.0
"""How long such a process stays listed after it was last this busy: an evaluation, an upload or a hang is not the end. At least
the first value; longer if it was busy longer, up to the second. Longer still if it waits for a process that waits for it."""
YOUNG_MAX = 8
"""At most this many processes that have just started, the newest ones, are examined in one search (our choice)."""
STOPPED_STATE = "T"
"""A signal has stopped the process: it counts as training if it used the CPU for ``TRAINING_AGE_S``."""


class UnlistedTrainings:
    """Knows which processes look like training on the CPU, or wait as ranks, as of the last search."""

    def __init__(self, cache: ProcessCache) -> None:
        self.workers = WorkerBook()
        self._cache = cache
        self.launchers: tuple[WaitingLauncher, ...] = ()
        """The launchers that wait for other nodes: this user's, then those of others."""
        self.own_launchers: frozenset[int] = frozenset()
        """This user's torchruns, mpiruns and the like that gputop did not start as jobs, with or without ranks."""
        self.young: frozenset[int] = frozenset()
        """This user's Python processes that import torch and that nothing lists yet: a script may fail within seconds."""
        self.written_by_children: dict[int, int] = {}
        """PID of a shown process -> the bytes that the Python processes that it started write to disks, without its loader's
        workers and without shown ones: a helper may write its checkpoints."""
        self._python_launchers = PythonLaunchers()
        self._waiting_launchers = WaitingLaunchers()
        self._launchers_of_others = LaunchersOfOthers(cache)
        self._waiting_ranks = WaitingRanks(cache)
        self._training: dict[tuple[int, int], float] = {}
        """Process -> until when it stays listed."""
        self._began: dict[tuple[int, int], float] = {}
        """Process -> since when it is listed."""
        self._waiting: set[int] = set()
        self._forking: set[int] = set()
        """The parents that only wait for what they have forked: without them, each copy would look like a run of its own."""
        self._ticks: dict[tuple[int, int], tuple[int, float]] = {}
        self._queued: dict[tuple[int, int], tuple[int, float]] = {}
        self._scanned_s = -SCAN_S

    def pids(
        self, now_s: float, listed: Collection[int], others: Iterable[int] = (), tracked: Collection[int] = ()
    ) -> set[int]:
        """Return the PIDs that look like training on the CPU or wait as ranks; search /proc every ``SCAN_S`` seconds.

        ``listed`` are the PIDs that are shown for another reason; ``others`` are processes of other users, for their workers;
        ``tracked`` are those of the listed ones that write a journal.
        """
        if now_s - self._scanned_s >= SCAN_S:
            self._scanned_s = now_s
            self._scan(now_s, listed, others, tracked)
        return {pid for pid, _ in self._training} | self._waiting | self._forking

    @property
    def in_rendezvous(self) -> frozenset[int]:
        """The spawned processes of which just one listens for the others, as of the last search."""
        return self._waiting_ranks.in_rendezvous

    @property
    def stated(self) -> Mapping[int, StatedRank]:
        """PID -> the numbers on its command line, as of the last search."""
        return self._waiting_ranks.stated

    def _scan(self, now_s: float, listed: Collection[int], others: Iterable[int], tracked: Collection[int]) -> None:
        before, self._ticks = self._ticks, {}
        queued, self._queued = self._queued, {}
        lingering, self._training = self._training, {}
        pythons = sorted(self._cache.pythons(now_s, SCAN_S), key=lambda facts: facts.stat.start_ticks)
        self.workers.take(chain(pythons, workers_of_others(self._cache, others)), now_s)
        for facts in pythons:
            key, ticks = facts.key, facts.stat.cpu_ticks
            self._ticks[key] = (ticks, now_s)
            then_ticks, then_s = before.get(key, (0, now_s - facts.age_s))  # the first time: since it started
            share = 100 * (ticks - then_ticks) / procfs.TICKS_PER_S / max(now_s - then_s, procfs.MIN_PERIOD_S)
            if CROWDED_CPU_PERCENT < share <= TRAINING_CPU_PERCENT:
                # What a known process waited for before this share was measured says nothing about it.
                since = queued.get(key) if key in before else (0, now_s - facts.age_s)
                share += self._queued_percent(facts, since, now_s)
            busy = share > TRAINING_CPU_PERCENT and facts.age_s >= TRAINING_AGE_S
            busy |= facts.stat.state == STOPPED_STATE and ticks >= TRAINING_AGE_S * procfs.TICKS_PER_S
            if busy and self._cache.torch_mapped(facts, now_s) and self._may_train(facts, listed):
                busy_s = now_s - self._began.setdefault(key, now_s)
                self._training[key] = now_s + min(max(TRAINING_LINGER_S, busy_s), TRAINING_LINGER_MAX_S)
            elif lingering.get(key, 0.0) > now_s:
                self._training[key] = lingering[key]
            elif key in lingering and facts.try_read((), read_child_woken_by) == "nothing":
                self._training[key] = now_s + TRAINING_LINGER_S
        self._began = {key: since for key, since in self._began.items() if key in self._training}
        shown = {*listed, *(pid for pid, _ in self._training)}
        self._waiting = self._waiting_ranks.find(pythons, shown, now_s)
        self.launchers = (*self._waiting_launchers.find(pythons), *self._launchers_of_others.find(now_s))
        self.written_by_children = _written_by_children(pythons, shown)
        found = self._python_launchers.find(pythons)
        launchers = [facts for facts in pythons if facts.stat.pid in found]
        natives = [pid for pid, program in self._cache.programs.items() if program in PROGRAMS]
        looked_up = (self._cache.look_up_if_readable(pid, now_s) for pid in natives)
        launchers += [facts for facts in looked_up if facts is not None]
        self.own_launchers = frozenset(facts.stat.pid for facts in launchers if not self._is_of_a_job(facts))
        new = takewhile(lambda facts: facts.age_s < TRAINING_AGE_S, reversed(pythons))
        young = islice((facts for facts in new if facts.stat.pid not in shown | found), YOUNG_MAX)
        self.young = frozenset(facts.stat.pid for facts in young if self._is_young(facts, listed, now_s))
        self._forking = _parents_of_copies(pythons, shown - set(tracked))

    def _queued_percent(self, facts: Facts, before: tuple[int, float] | None, now_s: float) -> float:
        """Return the percentage of time that a process's main thread has waited for a core since ``before``.

        ``before`` is the time waited by then, in nanoseconds, and when that was read. Without it, the result is 0: the next
        search compares with this one.
        """
        queued_ns = facts.try_read((), procfs.read_queued_ns)
        if queued_ns is None:
            return 0.0
        self._queued[facts.key] = (queued_ns, now_s)
        if before is None:
            return 0.0
        return 100 * (queued_ns - before[0]) / 1e9 / max(now_s - before[1], procfs.MIN_PERIOD_S)

    def _is_young(self, facts: Facts, listed: Collection[int], now_s: float) -> bool:
        """Return whether a process that has just started prints to a file or a pipe, and imports torch to train.

        What gputop has started says itself why it ended.
        """
        if not procfs_activity.prints_away(facts.stat.pid) or not self._cache.torch_mapped(facts, now_s):
            return False
        environment = self._cache.environment(facts)
        ours = environment is not None and (environment.gputop_launch_id or environment.gputop_job_id) is not None
        return not ours and self._may_train(facts, listed)

    def _is_of_a_job(self, facts: Facts) -> bool:
        environment = self._cache.environment(facts)
        return environment is not None and environment.gputop_job_id is not None

    def _may_train(self, facts: Facts, listed: Collection[int]) -> bool:
        """Return whether the process neither works for a listed one, as a DataLoader worker or a compiler does, nor is a
        tool."""
        parent = works_for(facts.stat.ppid)
        works = facts.stat.comm == WORKER_NAME or parent in listed or any(pid == parent for pid, _ in self._training)
        return not works and not is_tool(procfs.command_line_of(facts.stat.pid))


def _written_by_children(pythons: Iterable[Facts], shown: Collection[int]) -> dict[int, int]:
    written: dict[int, int] = {}
    for facts in pythons:
        parent = facts.stat.ppid
        if parent in shown and facts.stat.pid not in shown and facts.stat.comm != WORKER_NAME:
            found = facts.try_read((), procfs_activity.read_io)
            written[parent] = written.get(parent, 0) + (found.written_bytes if found is not None else 0)
    return written


def _parents_of_copies(pythons: Collection[Facts], shown: Collection[int]) -> set[int]:
    """Return the processes that have forked a shown one, which still runs their command."""
    by_pid = {facts.stat.pid: facts.stat for facts in pythons}
    copies: dict[int, list[int]] = {}
    for pid in shown:
        stat = by_pid.get(pid)
        parent = by_pid.get(stat.ppid) if stat is not None else None
        # An exec moves the stack; 0 is hidden.
        if stat is not None and parent is not None and 0 != stat.image == parent.image:
            copies.setdefault(parent.pid, []).append(pid)
    # A child with another title, such as a server's engine, is another program to the user.
    commands = {parent: procfs.command_line_of(parent) for parent in copies}
    return {parent for parent, pids in copies.items() if any(procfs.command_line_of(pid) == commands[parent] for pid in pids)}
