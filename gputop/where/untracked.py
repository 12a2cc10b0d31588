"""Untracked processes: found by a PID, with the ranks that the same launcher started, and inspected through /proc."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from gputop import units
from gputop.command_line import script_name
from gputop.errors import UsageError
from gputop.sources.host import procfs
from gputop.where import messages, outside
from gputop.where.beside import Unreported, places_of, rank_of
from gputop.where.stacks import with_stack
from gputop.whereabouts.records import RankPlace, Whereabouts
from gputop.whereabouts.verdict import judged

OBSERVED_S = 1.0
"""How long processes are observed: a rank that waits for others gets no core all the while."""


def ask_process(pid: int) -> Whereabouts:
    """Return what is visible of a process, and of the ranks next to it, from outside.

    Raises:
        UsageError: there is no such process.
    """
    if outside.observe(pid) is None:
        raise UsageError(f"There is no process {pid}.", "gputop lists runs and processes; gputop where RUN takes a run's name.")
    ranks = {other: rank_of(other) for other in _ranks_beside(pid)}
    return _told(pid, ranks if len(set(ranks.values())) == len(ranks) else {pid: ranks[pid]})


def ask_processes(pids: Sequence[int], name: str | None = None) -> Whereabouts:
    """Return what is visible of the processes of one run from outside; those that are gone are left out.

    ``name``: the run's name; None: the script of the first of them.

    Raises:
        UsageError: none of them is left.
    """
    ranks = {pid: rank_of(pid) for pid in pids if outside.observe(pid) is not None}
    if not ranks:
        raise UsageError("Its processes have ended.")
    if len(set(ranks.values())) < len(ranks):  # what multiprocessing forks has the variables of its parent
        ranks = dict.fromkeys(ranks)
    return _told(next(iter(ranks)), ranks, name)


def _told(pid: int, ranks: Mapping[int, int | None], name: str | None = None) -> Whereabouts:
    """Return where processes are, by PID and rank; ``pid``: the one that names them if ``name`` is None."""
    before, began = {other: outside.observe(other) for other in ranks}, time.monotonic()
    time.sleep(OBSERVED_S)
    passed_s = time.monotonic() - began
    found = [Unreported(other, rank, "untracked") for other, rank in sorted(ranks.items(), key=lambda item: item[1] or 0)]
    places = places_between(found, before, None, passed_s)
    name = name or script_name(procfs.command_line_of(pid) or ()) or f"process {pid}"
    return judged(None, name, time.time(), places)


def places_between(
    ranks: Sequence[Unreported],
    before: Mapping[int, outside.Outside | None],
    now: Mapping[int, outside.Outside | None] | None,
    passed_s: float,
) -> list[RankPlace]:
    """Return where the ranks of a run are, by two readings ``passed_s`` seconds apart, their stacks, and their connections.

    ``now``: the second reading; None: read it. A process that is gone has no place.
    """
    return _with_messages([with_stack(place) for place in places_of(ranks, before, passed_s, now)])


def _with_messages(places: Sequence[RankPlace]) -> list[RankPlace]:
    """Name those that have sent nothing since the others did, if all ranks only wait and nothing else tells them apart."""
    alike = all(place.process_state == "S" and place.doing is None and place.still is not False for place in places)
    silent = messages.silent([place.pid for place in places if place.pid is not None]) if len(places) > 1 and alike else {}
    return [
        replace(place, doing=f"has sent nothing for {units.duration(silent[place.pid])}, and the others have since")
        if place.pid in silent
        else place
        for place in places
    ]


def _ranks_beside(pid: int) -> list[int]:
    """Return the processes with a rank that have the same parent and user, the process itself among them."""
    own = procfs.read_stat(pid)
    if own is None or rank_of(pid) is None:
        return [pid]
    found = []
    for other in procfs.list_pids():
        with suppress(OSError):
            stat = procfs.read_stat(other)
            if stat is not None and stat.ppid == own.ppid and rank_of(other) is not None:
                found.append(other)
    return found
