"""Reads regularly where the ranks of an untracked run are while one of them rests; ``untracked`` does the same on request.

A standstill begins with a rank that uses no CPU. While all ranks work, nothing is read.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from gputop.process import Process, ProcessRun
from gputop.where import outside
from gputop.where.beside import Unreported
from gputop.where.early_places import RANKS_MAX
from gputop.where.untracked import places_between
from gputop.whereabouts.records import RankPlace
from gputop.whereabouts.verdict import perhaps_behind

READ_EVERY_S = 5.0
"""How often to read while a rank rests, unless that would exceed ``SHARE``."""
FIRST_S = 2.0
"""Time to the second reading, the first that shows anything: ``gputop doctor`` settles after ten seconds."""
SHARE = 0.002
"""The largest share of a core that the readings may use: a machine may have thousands of connections."""
RESTS_PERCENT = 10.0
"""A rank that uses less of a core rests."""


@dataclass(slots=True)
class _Reading:
    at_s: float
    due_s: float
    seen: dict[int, outside.Outside | None]
    places: dict[int, RankPlace]
    """By PID; empty if nothing shows which rank is behind."""


class UntrackedPlaces:
    """Adds to runs of several ranks the places of their ranks, if these show which rank the others may wait for."""

    def __init__(self) -> None:
        self._known: dict[str, _Reading] = {}

    def add(self, runs: Sequence[ProcessRun], processes: Iterable[Process]) -> tuple[ProcessRun, ...]:
        """Return the runs with these places. Ranks that report their own place are left out."""
        resting = {item.pid for item in processes if item.cpu_percent is not None and item.cpu_percent < RESTS_PERCENT}
        before, self._known = self._known, {}
        found = []
        for run in runs:
            reading, ranks = None, run.ranks
            if 1 < len(ranks) <= RANKS_MAX and any(r.pid in resting for r in ranks) and all(r.place is None for r in ranks):
                reading = self._known[run.key] = _read(run, before.get(run.key))
            found.append(_with_places(run, reading.places) if reading is not None and reading.places else run)
        return tuple(found)


def _read(run: ProcessRun, known: _Reading | None) -> _Reading:
    began_s, used_s = time.monotonic(), time.thread_time()
    if known is not None and began_s < known.due_s and known.seen.keys() == {rank.pid for rank in run.ranks}:
        return known
    seen: dict[int, outside.Outside | None] = {}
    for rank in run.ranks:
        seen[rank.pid] = None
        with suppress(OSError):
            seen[rank.pid] = outside.observe(rank.pid)
    places: Sequence[RankPlace] = ()
    if known is not None and known.seen.keys() == seen.keys():
        ranks = [Unreported(rank.pid, rank.rank, "untracked") for rank in run.ranks]
        places = places_between(ranks, known.seen, seen, began_s - known.at_s)
        places = places if perhaps_behind(places) is not None else ()
    due_s = time.monotonic() + max(FIRST_S if known is None else READ_EVERY_S, (time.thread_time() - used_s) / SHARE)
    return _Reading(began_s, due_s, seen, {place.pid: place for place in places if place.pid is not None})


def _with_places(run: ProcessRun, places: dict[int, RankPlace]) -> ProcessRun:
    return replace(run, ranks=tuple(replace(rank, place=places.get(rank.pid)) for rank in run.ranks))
