"""Reads repeatedly where the ranks of untracked runs are, as ``untracked`` does on request, while some of them rest.

The first thing that a run shows of a standstill is that a rank uses no processor. Until then, this costs nothing.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from gputop.process import Process, ProcessRun
from gputop.where import outside
from gputop.where.beside import Mute
from gputop.where.untracked import places_between
from gputop.whereabouts.records import RankPlace
from gputop.whereabouts.verdict import perhaps_behind

LOOK_S = 5.0
FIRST_S = 2.0
"""The second look, which first tells something, is due after this time: ``gputop doctor`` settles after ten seconds."""
SHARE = 0.002
"""The largest share of a core that this may use: a machine may have thousands of connections."""
RESTS_PERCENT = 10.0
"""A rank that uses less of a core rests."""


@dataclass(slots=True)
class _Looked:
    at_s: float
    due_s: float
    seen: dict[int, outside.Outside | None]
    places: dict[int, RankPlace]
    """By PID; empty if nothing shows which rank is behind."""


class UntrackedPlaces:
    """Adds to runs of several ranks the places of their ranks, if these show which rank the others may wait for."""

    def __init__(self) -> None:
        self._known: dict[str, _Looked] = {}

    def add(self, runs: Sequence[ProcessRun], processes: Iterable[Process]) -> tuple[ProcessRun, ...]:
        """Return the runs with these places. A rank that says itself where it is is not looked at."""
        resting = {item.pid for item in processes if item.cpu_percent is not None and item.cpu_percent < RESTS_PERCENT}
        before, self._known = self._known, {}
        found = []
        for run in runs:
            looked = None
            if len(run.ranks) > 1 and any(r.pid in resting for r in run.ranks) and all(r.place is None for r in run.ranks):
                looked = self._known[run.key] = _look(run, before.get(run.key))
            found.append(_with_places(run, looked.places) if looked is not None and looked.places else run)
        return tuple(found)


def _look(run: ProcessRun, known: _Looked | None) -> _Looked:
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
        ranks = [Mute(rank.pid, rank.rank, "untracked") for rank in run.ranks]
        places = places_between(ranks, known.seen, seen, began_s - known.at_s)
        places = places if perhaps_behind(places) is not None else ()
    due_s = time.monotonic() + max(FIRST_S if known is None else LOOK_S, (time.thread_time() - used_s) / SHARE)
    return _Looked(began_s, due_s, seen, {place.pid: place for place in places if place.pid is not None})


def _with_places(run: ProcessRun, places: dict[int, RankPlace]) -> ProcessRun:
    return replace(run, ranks=tuple(replace(rank, place=places.get(rank.pid)) for rank in run.ranks))
