"""Training that no device and no journal lists: what trains on the CPU, and ranks that wait.

Owns ``UnlistedTrainings``, which searches this user's Python processes, and the book of DataLoader workers, which the same
search keeps. Imports only the standard library, gputop's records and its neighbors.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain

from gputop.groups import WORKER_NAME
from gputop.sources.host import procfs
from gputop.sources.host.book import Facts, ProcessBook
from gputop.sources.host.waiting_ranks import WaitingRanks
from gputop.sources.host.workers import WorkerBook, workers_of_others

SCAN_S = 2.0
"""How often to search /proc for training on the CPU."""
TRAINING_CPU_PERCENT = 50.0
"""A Python process with PyTorch that uses more than this of one core looks like training."""
TRAINING_AGE_S = 5.0
"""A younger process is still importing, which also keeps it busy."""
TRAINING_LINGER_S = 30.0
"""How long such a process stays listed after it was last this busy: an evaluation or a checkpoint is not the end."""


class UnlistedTrainings:
    """Knows which processes look like training on the CPU, or wait as ranks, as of the last search."""

    def __init__(self, book: ProcessBook) -> None:
        self.workers = WorkerBook()
        self._book = book
        self._waiting_ranks = WaitingRanks(book)
        self._training: dict[tuple[int, int], float] = {}
        """Process -> until when it stays listed."""
        self._waiting: set[int] = set()
        self._ticks: dict[tuple[int, int], tuple[int, float]] = {}
        self._scanned_s = -SCAN_S

    def pids(self, now_s: float, listed: Collection[int], others: Iterable[int] = ()) -> set[int]:
        """Return the PIDs that look like training on the CPU or wait as ranks; search /proc every ``SCAN_S`` seconds.

        ``listed`` are the PIDs that are shown for another reason; ``others`` are processes of other users, for their workers.
        """
        if now_s - self._scanned_s >= SCAN_S:
            self._scanned_s = now_s
            self._scan(now_s, listed, others)
        return {pid for pid, _ in self._training} | self._waiting

    def _scan(self, now_s: float, listed: Collection[int], others: Iterable[int]) -> None:
        before, self._ticks = self._ticks, {}
        lingering, self._training = self._training, {}
        pythons = sorted(self._book.pythons(now_s, SCAN_S), key=lambda facts: facts.stat.start_ticks)
        self.workers.take(chain(pythons, workers_of_others(self._book, others)), now_s)
        for facts in pythons:
            key, ticks = facts.key, facts.stat.cpu_ticks
            self._ticks[key] = (ticks, now_s)
            then_ticks, then_s = before.get(key, (0, now_s - facts.age_s))  # the first time: since it started
            share = 100 * (ticks - then_ticks) / procfs.TICKS_PER_S / max(now_s - then_s, procfs.MIN_PERIOD_S)
            busy = share > TRAINING_CPU_PERCENT and facts.age_s >= TRAINING_AGE_S
            if busy and self._book.torch_mapped(facts, now_s) and not self._works_for_another(facts, listed):
                self._training[key] = now_s + TRAINING_LINGER_S
            elif lingering.get(key, 0.0) > now_s:
                self._training[key] = lingering[key]
        self._waiting = self._waiting_ranks.find(pythons, {*listed, *(pid for pid, _ in self._training)}, now_s)

    def _works_for_another(self, facts: Facts, listed: Collection[int]) -> bool:
        """Return whether the process works for a listed process, as a DataLoader worker or a compiler."""
        parent = facts.stat.ppid
        return facts.stat.comm == WORKER_NAME or parent in listed or any(pid == parent for pid, _ in self._training)
