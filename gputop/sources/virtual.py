"""Virtual GPUs for machines without a GPU: real work of this machine's CPU, measured.

This module decides which process or thread works as which virtual GPU, and how much. A virtual GPU's utilization is the CPU
time of its workers divided by the elapsed time, in percent of one core and at most 100. Its memory is an equal share of the
machine's. What a CPU cannot provide (power, temperature, clocks) stays unknown. Imports only the standard library and
gputop's records; reads through ``host/process_cache`` and ``procfs``.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from gputop.errors import NoGpuError, UsageError
from gputop.process import DEAD_STATES
from gputop.snapshot import Device, DeviceUse, HostSource, Problem
from gputop.sources.base import Claim, Reading
from gputop.sources.host import procfs
from gputop.sources.host.process_cache import Facts, ProcessCache
from gputop.sources.virtual_ranks import Started, ranks

NAME = "Virtual GPU (CPU)"
DEFAULT_MAX = 8
"""A usual server has this many GPUs."""
SEARCH_EVERY_S = 1.0
"""How often to search this user's processes for ranks without a claim."""
MIN_PERIOD_S = 0.1
"""CPU times count in 10 ms: below this, no share is computed and the previous one stays valid."""


def default_count() -> int:
    """Return how many virtual GPUs suit this machine: one per core that this process may use, at least 2, at most 8."""
    return min(DEFAULT_MAX, max(2, len(os.sched_getaffinity(0))))


@dataclass(frozen=True, slots=True)
class _Worker:
    """One process or thread that works as one virtual GPU."""

    pid: int
    index: int
    thread_id: int | None = None
    memory_bytes: int | None = None
    start_ticks: int | None = None
    """For a worker that was found by search: its process's start time, because PIDs are reused."""


class VirtualSource:
    """Reads virtual GPUs; implements ``sources.base.Source``. Has no thread: ``read`` computes everything.

    What works as a virtual GPU, in order of precedence: the ``claims`` passed to ``read``; else a process of this user with
    PyTorch mapped and LOCAL_RANK in its environment at launch, which is that entry of GPUTOP_VIRTUAL_DEVICES, or that index
    if there is no such mask; else a process with only a mask, which is the mask's first entry. Children of such processes are
    DataLoader workers and the like: work of the host, not of a device. But those that gloo has connected to others are ranks
    that the process started, and take the entries of its mask in their order.
    """

    name: HostSource = "virtual"

    def __init__(self, count: int | None = None) -> None:
        """Create ``count`` virtual GPUs, each with an equal share of the machine's memory (MemTotal // count).

        Raises:
            UsageError: ``count`` is below 1.
        """
        if count is not None and count < 1:
            raise UsageError(
                f"{count} is not a valid number of virtual GPUs.", "Give 1 or more, or omit it for a suitable number."
            )
        self._count = count or default_count()
        self._cache = ProcessCache()
        boot = (procfs.read_boot_id() or "unknown").replace("-", "")[:8]
        self.uuids = tuple(f"VIRTUAL-{boot}-{index}" for index in range(self._count))
        total = procfs.read_meminfo().get("MemTotal")
        self._memory_total_bytes = None if total is None else total // self._count
        self._found: tuple[_Worker, ...] = ()
        self._found_notes: tuple[Problem, ...] = ()
        self._found_s = -SEARCH_EVERY_S
        self._found_claiming: frozenset[int] = frozenset()
        self._started: Started = {}
        self._meter = _Meter()

    def start(self, interval_s: float) -> None:
        """Check that CPU times can be read; the caller keeps the interval.

        Raises:
            NoGpuError: there is no Linux /proc.
        """
        try:
            readable = procfs.read_stat(os.getpid()) is not None
        except OSError:
            readable = False
        if not readable:
            raise NoGpuError(
                "Virtual GPUs need Linux's /proc, and it cannot be read here.", "Mount it, or run gputop on Linux.", "other"
            )

    def read(self, claims: Sequence[Claim] = ()) -> Reading:
        """Return all virtual GPUs. Utilization covers the time since the previous reading.

        It is ``None`` at the first reading, and for one reading after a process that already existed, unmeasured, starts to
        work as a GPU.
        """
        claimed, notes = self._claimed(claims)
        self._find(frozenset(claim.pid for claim in claims))
        workers = (*claimed, *self._found)
        uses = self._uses(workers)
        devices = tuple(self._device(index, uses) for index in range(self._count))
        return Reading(devices=devices, uses=uses, notes=(*notes, *self._found_notes))

    def wait_until_whole(self, timeout_s: float, rates: bool = True) -> None:
        """Do nothing: every reading is complete."""

    def want_pcie(self, wanted: bool) -> None:
        """Do nothing: a virtual GPU has no link."""

    def close(self) -> None:
        """Do nothing: there is no thread and no file to close."""

    def _claimed(self, claims: Iterable[Claim]) -> tuple[list[_Worker], list[Problem]]:
        workers: dict[tuple[int, int, int | None], _Worker] = {}
        notes = []
        for claim in claims:
            if not 0 <= claim.virtual_index < self._count:
                notes.append(self._out_of_range(claim.pid, f"reports that it works as virtual GPU {claim.virtual_index}"))
            else:
                key = (claim.pid, claim.virtual_index, claim.thread_id)
                workers[key] = _Worker(claim.pid, claim.virtual_index, claim.thread_id, claim.memory_bytes)
        return list(workers.values()), notes

    def _out_of_range(self, pid: int, does: str) -> Problem:
        return Problem(
            "other",
            f"Process {pid} {does}, but there are only {self._count}: it is not counted.",
            "Start fewer processes per machine, or more virtual GPUs with --virtual N.",
        )

    def _find(self, claiming: frozenset[int]) -> None:
        """Search for ranks without a claim: at most every ``SEARCH_EVERY_S`` seconds, or when the claiming processes change."""
        now_s = time.monotonic()
        if now_s - self._found_s < SEARCH_EVERY_S and claiming == self._found_claiming:
            return
        self._found_s, self._found_claiming = now_s, claiming
        workers, notes = [], []
        for facts in ranks(self._cache, claiming, now_s, SEARCH_EVERY_S, self._started):
            index, problem = self._index_of(facts)
            if problem:
                notes.append(problem)
            elif index is not None:
                workers.append(_Worker(facts.stat.pid, index, start_ticks=facts.stat.start_ticks))
        self._found, self._found_notes = tuple(workers), tuple(notes)

    def _index_of(self, facts: Facts) -> tuple[int | None, Problem | None]:
        environment, pid = facts.environment, facts.stat.pid
        if environment is None:
            return None, None
        local_rank, mask = environment.local_rank, environment.virtual_devices
        if mask is None:
            if local_rank is not None and local_rank >= self._count:
                return None, self._out_of_range(pid, f"is local rank {local_rank}")
            return local_rank, None
        visible = visible_devices(mask, self.uuids)
        _, place = self._started.get(facts.key, (0, 0))
        position = local_rank or (place % len(visible) if visible else 0)
        if position < len(visible):
            return visible[position], None
        if not mask.strip():
            return None, None  # an empty mask: use none
        does = "" if local_rank is None else f"is local rank {local_rank} and "
        return None, self._out_of_range(pid, f"{does}has GPUTOP_VIRTUAL_DEVICES={mask}")

    def _uses(self, workers: Iterable[_Worker]) -> dict[int, tuple[DeviceUse, ...]]:
        by_pid: dict[int, list[_Worker]] = {}
        for worker in workers:
            by_pid.setdefault(worker.pid, []).append(worker)
        self._meter.begin()
        shares: dict[tuple[int, int], float | None] = {}
        memory: dict[tuple[int, int], int | None] = {}
        for pid, of_pid in by_pid.items():
            facts = self._cache.look_up_if_readable(pid)
            if facts is None or facts.stat.state in DEAD_STATES:
                continue
            if of_pid[0].start_ticks not in (None, facts.stat.start_ticks):
                continue
            for index, share in self._meter.shares(facts, of_pid).items():
                shares[pid, index] = share
                memory[pid, index] = _memory(facts, of_pid, index)
        self._meter.end()
        scaled = _scale(shares)
        uses: dict[int, list[DeviceUse]] = {}
        for pid, index in sorted(shares):
            use = DeviceUse(self.uuids[index], memory[pid, index], scaled[pid, index], "C")
            uses.setdefault(pid, []).append(use)
        return {pid: tuple(of_pid) for pid, of_pid in uses.items()}

    def _device(self, index: int, uses: Mapping[int, tuple[DeviceUse, ...]]) -> Device:
        mine = [use for of_pid in uses.values() for use in of_pid if use.device_uuid == self.uuids[index]]
        return Device(
            index=index,
            uuid=self.uuids[index],
            name=NAME,
            kind="virtual",
            memory_total_bytes=self._memory_total_bytes,
            memory_used_bytes=_sum_int(use.memory_used_bytes for use in mine),
            utilization_percent=_sum_share((use.sm_utilization_percent for use in mine), measured=self._meter.has_measured),
        )


def visible_devices(mask: str, uuids: Sequence[str]) -> tuple[int, ...]:
    """Parse GPUTOP_VIRTUAL_DEVICES as CUDA parses its mask: indices or UUIDs, up to the first entry that is neither."""
    found: list[int] = []
    for entry in (part.strip() for part in mask.split(",")):
        if entry in uuids:
            found.append(uuids.index(entry))
        elif entry.isascii() and entry.isdigit() and len(entry) <= 9 and int(entry) < len(uuids):
            found.append(int(entry))
        else:
            break
    return tuple(found)


class _Meter:
    """Converts CPU times to shares of the time since the previous reading."""

    def __init__(self) -> None:
        self._ticks: dict[tuple[int, int, int], int] = {}
        self._new: dict[tuple[int, int, int], int] = {}
        self._shares: dict[tuple[int, int, int], float | None] = {}
        self._new_shares: dict[tuple[int, int, int], float | None] = {}
        self._at_s: float | None = None
        self._now_s = 0.0
        self._too_soon = False
        self.has_measured = False

    def begin(self) -> None:
        """Begin a reading. Start times in /proc count from boot, so this clock does too."""
        self._now_s = time.clock_gettime(time.CLOCK_BOOTTIME)
        self._too_soon = self._at_s is not None and self._now_s - self._at_s < MIN_PERIOD_S
        self._new, self._new_shares = {}, {}

    def end(self) -> None:
        """End a reading; forget what no longer works."""
        self._shares = self._new_shares
        if not self._too_soon:
            self.has_measured = self._at_s is not None
            self._ticks, self._at_s = self._new, self._now_s

    def shares(self, facts: Facts, workers: Sequence[_Worker]) -> dict[int, float | None]:
        """Return, for each virtual GPU, the share that one process works as that GPU, in percent of one core, uncapped.

        Threads are counted individually. If the process also claims one GPU as a whole, the rest of its time counts there. If
        it claims several as a whole, the split is unknown.
        """
        pid = facts.stat.pid
        of_threads: dict[int, list[float | None]] = {}
        for thread_id, index in {(worker.thread_id, worker.index) for worker in workers}:
            stat = None if thread_id is None else procfs.read_thread_stat(pid, thread_id)
            if stat is not None:
                of_threads.setdefault(index, []).append(self._share(pid, stat))
        whole = self._share(pid, facts.stat._replace(pid=0))
        found = {index: _total(shares) for index, shares in of_threads.items()}
        as_whole = {worker.index for worker in workers if worker.thread_id is None}
        counted = [share for index, shares in of_threads.items() if index not in as_whole for share in shares]
        for index in as_whole:
            in_threads = _total(counted)
            known = len(as_whole) == 1 and whole is not None and in_threads is not None
            found[index] = max(0.0, (whole or 0.0) - (in_threads or 0.0)) if known else None
        return found

    def _share(self, pid: int, stat: procfs.Stat) -> float | None:
        key = (pid, stat.pid, stat.start_ticks)
        before = self._ticks.get(key)
        self._new[key] = stat.cpu_ticks
        if self._too_soon:
            share = self._shares.get(key)
        elif self._at_s is None or (before is None and stat.start_ticks / procfs.TICKS_PER_S < self._at_s):
            share = None
        else:  # a process that started since the previous reading had no CPU time then
            share = 100 * max(0, stat.cpu_ticks - (before or 0)) / procfs.TICKS_PER_S / (self._now_s - self._at_s)
        self._new_shares[key] = share
        return share


def _total(shares: Iterable[float | None]) -> float | None:
    total = 0.0
    for share in shares:
        if share is None:
            return None
        total += share
    return total


def _sum_share(shares: Iterable[float | None], *, measured: bool) -> float | None:
    total = _total(shares) if measured else None
    return None if total is None else min(100.0, total)


def _sum_int(values: Iterable[int | None]) -> int | None:
    total = 0
    for value in values:
        if value is None:
            return None
        total += value
    return total


def _memory(facts: Facts, workers: Sequence[_Worker], index: int) -> int | None:
    """Return the bytes that a process reports for that GPU; else its resident memory, which counts only once."""
    stated = [worker.memory_bytes for worker in workers if worker.index == index]
    known = [size for size in stated if size is not None]
    if len(known) == len(stated):
        return sum(known)
    return facts.stat.rss_bytes if len({worker.index for worker in workers}) == 1 and not known else None


def _scale(shares: Mapping[tuple[int, int], float | None]) -> dict[tuple[int, int], float | None]:
    """Scale each virtual GPU's shares down proportionally, so that they add up to at most 100."""
    totals: dict[int, float] = {}
    for (_, index), share in shares.items():
        totals[index] = totals.get(index, 0.0) + (share or 0.0)
    return {
        key: None if share is None else min(share, 100.0 * share / max(100.0, totals[key[1]])) for key, share in shares.items()
    }
