"""Runs before their first step: which groups are such runs, and which of their ranks the others wait for. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.process import ProcessRank, ProcessRun
from gputop.snapshot import Snapshot
from gputop.whereabouts.records import Whereabouts
from gputop.whereabouts.verdict import judged


def starting_run(snapshot: Snapshot, group: RankGroup) -> ProcessRun | None:
    """Return the run of a group if it has several ranks and gputop, which tracks it, has seen no step yet; else None."""
    if group.run is not None:
        return None
    places, waiting = _places(snapshot.process_runs)
    place = min((places[pid] for pid in group.pids if pid in places), default=None)
    return snapshot.process_runs[place] if place is not None and place in waiting else None


def _has_not_begun(run: ProcessRun) -> bool:
    several = (run.world_size or len(run.ranks)) > 1
    return several and (run.starting or any(_reports(rank) for rank in run.ranks))


def _reports(rank: ProcessRank) -> bool:
    return rank.place is not None and rank.place.at is not None


_Places = tuple[dict[int, int], frozenset[int]]
_newest: tuple[Sequence[ProcessRun], _Places] = ((), ({}, frozenset()))


def _places(runs: Sequence[ProcessRun]) -> _Places:
    """Return PID -> the index of its run, and the indices of the runs that have not begun; nothing if all have.

    Kept for the newest runs: hundreds of groups ask for those of one snapshot.
    """
    global _newest
    known, places = _newest
    if known is not runs:
        waiting = frozenset(place for place, run in enumerate(runs) if _has_not_begun(run))
        by_pid: dict[int, int] = {}
        for place, run in enumerate(runs) if waiting else ():
            for rank in run.ranks:
                by_pid.setdefault(rank.pid, place)
        places = by_pid, waiting
        _newest = runs, places
    return places


def whereabouts(snapshot: Snapshot, run: ProcessRun) -> Whereabouts | None:
    """Return where the ranks of a run before its first step are; None unless all ranks on this machine stand still."""
    places = [rank.place for rank in run.ranks if rank.place is not None and _reports(rank)]
    if len(places) < max(2, len(run.ranks)):
        return None
    return judged(run.run_id, run.name, snapshot.time, places)
