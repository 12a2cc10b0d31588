"""Finds the processes of a launch that has no run yet, because no step has ended, and asks them where they are.

They report it in anonymous memory (``tracking/standing/early.py``), which /proc shows to their user.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from gputop import units
from gputop.command_line import script_name
from gputop.snapshot import Rank, Run
from gputop.sources.host import procfs
from gputop.tracking.journal import format as form
from gputop.tracking.journal import identity
from gputop.tracking.standing.early import NAME
from gputop.where import beside, outside
from gputop.where.asking import ask
from gputop.where.rings import Ring
from gputop.whereabouts.records import RankPlace, Whereabouts
from gputop.whereabouts.verdict import judged
from gputop.whereabouts.words import operation_of, who
from gputop.wire import FormatError

RANKS_MAX = 65_536
"""No launch has more; the size that a process reports is not trusted."""
_MEMORY = f"/memfd:{NAME}"


class Waiting:
    """Processes of one launch without a run, by rank. The caller closes it."""

    def __init__(self, run_id: str, rings: dict[int, Ring]) -> None:
        self.run_id = run_id
        self.rings = rings

    @property
    def created_ns(self) -> int:
        """When the first of them began to report where it is, in ns since the epoch."""
        return min(ring.identity.created_ns for ring in self.rings.values())

    @property
    def world_size(self) -> int:
        """How many ranks the launch has, according to its processes."""
        return max((ring.identity.world_size or 1 for ring in self.rings.values()), default=1)

    def pids(self) -> set[int]:
        """Return their processes."""
        return {ring.identity.pid for ring in self.rings.values()}

    def ranks(self) -> list[Rank]:
        """Return their ranks, as a run would list them."""
        found = sorted(self.rings.items())
        return [Rank(rank, pid=ring.identity.pid, hostname=ring.identity.hostname) for rank, ring in found]

    def close(self) -> None:
        """Close all of them."""
        for ring in self.rings.values():
            ring.close()


def find(state: Path | None = None) -> list[Waiting]:
    """Return the launches on this machine that wait for their first step, newest first, without the helpers of their processes.

    ``state``: only those that keep their runs in this directory.
    """
    groups: dict[str, dict[int, Ring]] = {}
    for ring in _rings(state):
        group, rank = groups.setdefault(ring.identity.run_id, {}), ring.identity.rank
        known = group.get(rank)
        if known is not None and known.identity.start_ticks <= ring.identity.start_ticks:
            ring.close()
            continue
        if known is not None:
            known.close()
        group[rank] = ring
    found = [Waiting(run_id, rings) for run_id, rings in groups.items()]
    return sorted(found, key=lambda item: item.created_ns, reverse=True)


def unrelated(found: Iterable[Waiting], run: Run) -> list[Waiting]:
    """Return those that are neither launchers nor helpers of a run's ranks, nor ranks of it."""
    pids = {rank.local_pid for rank in run.ranks if rank.local_pid is not None}
    above = {pid for own in pids for pid in _ancestors(own)}
    return [
        item
        for item in found
        if item.run_id != run.run_id and not any(pid in above or pids & set(_ancestors(pid)) for pid in item.pids() - pids)
    ]


def ask_launch(pids: Collection[int]) -> Whereabouts | None:
    """Return where the launch of these processes is; None if none of them reports where it is.

    Several launchers may have started one run, each with its own id: they count as one launch. None if two of them have
    the same rank.
    """
    return _ask(lambda waiting: not waiting.pids().isdisjoint(pids))


def ask_named(run_id: str) -> Whereabouts | None:
    """Return where the launch with this id is; None if none waits here for its first step."""
    return _ask(lambda waiting: waiting.run_id == run_id)


def _ask(wanted: Callable[[Waiting], bool]) -> Whereabouts | None:
    found = find()
    try:
        chosen = list(filter(wanted, found))
        rings = {rank: ring for waiting in chosen for rank, ring in waiting.rings.items()}
        if not rings or len(rings) < sum(len(waiting.rings) for waiting in chosen):
            return None
        return ask_waiting(Waiting(chosen[0].run_id, rings))
    finally:
        for waiting in found:
            waiting.close()


def ask_waiting(waiting: Waiting) -> Whereabouts:
    """Return where these processes are, and which of their ranks are missing here. Takes two seconds at most."""
    pid = min(waiting.pids())
    name = script_name(procfs.command_line_of(pid) or ()) or f"process {pid}"
    unreported = beside.unreported({ring.identity.pid: rank for rank, ring in waiting.rings.items()})
    before, began = {found.pid: outside.observe(found.pid) for found in unreported}, time.monotonic()
    answer = ask(waiting.run_id, name, waiting.ranks(), waiting.rings)
    there = [place for place in answer.ranks if place.is_there]
    if unreported:
        others = beside.places_of(unreported, before, time.monotonic() - began)
        everyone = sorted((*answer.ranks, *others), key=_by_rank)
        answer = judged(answer.run_id, answer.name, answer.taken_at, everyone)
    known = waiting.rings.keys() | {found.rank for found in unreported}
    missing = [rank for rank in range(min(waiting.world_size, RANKS_MAX)) if rank not in known]
    if answer.behind or not missing or not there or not all(place.waits for place in there):
        return answer
    absent = f"rank{'s' if len(missing) > 1 else ''} {units.ranges(missing)} of {waiting.world_size}"
    waits = f"wait{'s' if len(there) == 1 else ''} in {' and '.join(sorted({operation_of(place) for place in there}))}"
    be = "are" if len(missing) > 1 else "is"
    return replace(answer, verdict=f"{who(there)} {waits}; {absent} {be} not on this machine, or had not imported torch")


def _by_rank(place: RankPlace) -> tuple[bool, int]:
    return place.rank is None, place.rank or 0


def _rings(state: Path | None) -> Iterable[Ring]:
    for pid in sorted(procfs.list_pids()):
        for path in memory_files(pid):
            with suppress(OSError):
                if (ring := open_memory(path, pid, state)) is not None:
                    yield ring


def memory_files(pid: int) -> Iterable[Path]:
    """Yield the open files of a process in which it may report where it is; none if it is gone, or hidden."""
    with suppress(OSError):
        for number in os.listdir(folder := f"/proc/{pid}/fd"):
            with suppress(OSError):
                if os.readlink(f"{folder}/{number}").startswith(_MEMORY):
                    yield Path(folder, number)


def open_memory(path: Path, pid: int, directory: Path | None = None) -> Ring | None:
    """Return the memory in which a process reports where it is; the caller closes it.

    None if gputop did not create the file, if it was inherited from another process, or if the process keeps its runs in
    another directory.

    Raises:
        OSError: the process or its file is gone, or hidden.
    """
    if not os.readlink(path).startswith(_MEMORY):
        return None
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        header = form.unpack_header(os.pread(fd, form.HEADER_BYTES, 0))
        who = header.identity
        state = identity.process_state(pid)
        same = who.pid == pid and state is not None and state[0] == who.start_ticks
        here = directory is None or header.partner == str(directory.absolute())
        if here and same and who.pid_namespace == identity.pid_namespace() and stat.S_ISREG(os.fstat(fd).st_mode):
            return Ring(path, fd, who, unnamed=True)
    except (OSError, FormatError):
        pass
    os.close(fd)
    return None


def _ancestors(pid: int) -> Sequence[int]:
    found: list[int] = []
    while pid > 1 and len(found) < 64:
        try:
            state = procfs.read_stat(pid)
        except OSError:
            break
        if state is None:
            break
        pid = state.ppid
        found.append(pid)
    return found
