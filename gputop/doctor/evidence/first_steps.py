"""Runs before their first step: which groups are such, and which of their ranks the others wait for. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.process import ProcessRun
from gputop.snapshot import Snapshot
from gputop.whereabouts import Whereabouts, judged


def starting_run(snapshot: Snapshot, group: RankGroup) -> ProcessRun | None:
    """Return the run of several ranks that a group is, if gputop tracks it and has seen no step of it; None otherwise."""
    if group.run is not None:
        return None
    places = _places(snapshot.process_runs)
    place = min((places[pid] for pid in group.pids if pid in places), default=None)
    if place is None:
        return None
    run = snapshot.process_runs[place]
    several = (run.world_size or len(run.ranks)) > 1
    tracked = run.starting or any(rank.place is not None for rank in run.ranks)
    return run if several and tracked else None


_newest: tuple[Sequence[ProcessRun], dict[int, int]] = ((), {})


def _places(runs: Sequence[ProcessRun]) -> dict[int, int]:
    """Return PID -> the place of its run. Kept for the newest runs: hundreds of groups ask for those of one snapshot."""
    global _newest
    known, places = _newest
    if known is not runs:
        places = {}
        for place, run in enumerate(runs):
            for rank in run.ranks:
                places.setdefault(rank.pid, place)
        _newest = runs, places
    return places


def whereabouts(snapshot: Snapshot, run: ProcessRun) -> Whereabouts | None:
    """Return where the ranks of such a run are; None unless all of those on this machine stand still."""
    places = [rank.place for rank in run.ranks if rank.place is not None]
    if len(places) < max(2, len(run.ranks)):
        return None
    return judged(run.run_id, run.name, snapshot.time, places)
