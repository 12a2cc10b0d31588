"""Runs before their first step: which groups are such, and which of their ranks the others wait for. Pure."""

from __future__ import annotations

from gputop.doctor.evidence.rank_groups import RankGroup
from gputop.process import ProcessRun
from gputop.snapshot import Snapshot
from gputop.whereabouts import Whereabouts, judged


def starting_run(snapshot: Snapshot, group: RankGroup) -> ProcessRun | None:
    """Return the run of several ranks that a group is, if gputop tracks it and has seen no step of it; None otherwise."""
    if group.run is not None:
        return None
    pids = set(group.pids)
    for run in snapshot.process_runs:
        if any(rank.pid in pids for rank in run.ranks):
            several = (run.world_size or len(run.ranks)) > 1
            tracked = run.starting or any(rank.place is not None for rank in run.ranks)
            return run if several and tracked else None
    return None


def whereabouts(snapshot: Snapshot, run: ProcessRun) -> Whereabouts | None:
    """Return where the ranks of such a run are; None unless all of those on this machine stand still."""
    places = [rank.place for rank in run.ranks if rank.place is not None]
    if len(places) < max(2, len(run.ranks)):
        return None
    return judged(run.run_id, run.name, snapshot.time, places)
