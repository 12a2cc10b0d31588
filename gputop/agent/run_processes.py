"""What the records of runs say about processes: which are ranks, when their runs began, and as which virtual GPUs they work."""

from __future__ import annotations

from collections.abc import Iterable

from gputop.snapshot import LIVE_STATES, ProcessRun, Run
from gputop.sources.base import Claim


def pids_of(runs: Iterable[Run]) -> dict[int, tuple[str, int]]:
    """Return PID -> (run id, rank) for every live rank."""
    return {
        rank.local_pid: (run.run_id, rank.rank)
        for run in runs
        for rank in run.ranks
        if rank.local_pid is not None and rank.state in LIVE_STATES
    }


def ranks_with_others_elsewhere(runs: Iterable[Run], untracked: Iterable[ProcessRun]) -> frozenset[int]:
    """Return the PIDs of the live ranks here whose runs have more ranks than this machine lists."""
    found: set[int] = set()
    for run in runs:
        here = [rank for rank in run.ranks if not rank.elsewhere and rank.local_pid is not None]
        if len(here) < (run.world_size or 0):
            found.update(rank.local_pid for rank in here if rank.local_pid is not None and rank.state in LIVE_STATES)
    for other in untracked:
        if len(other.ranks) < (other.world_size or 0):
            found.update(rank.pid for rank in other.ranks)
    return frozenset(found)


def began_of(runs: Iterable[Run]) -> dict[int, float]:
    """Return PID -> start of the newest run that it wrote on this machine, ended or not: wall clock in seconds."""
    found: dict[int, float] = {}
    for run in runs:
        for rank in run.ranks if run.created_at is not None else ():
            if rank.local_pid is not None:
                found[rank.local_pid] = max(found.get(rank.local_pid, 0.0), run.created_at or 0.0)
    return found


def claims_of(runs: Iterable[Run]) -> tuple[Claim, ...]:
    """Return which process or thread reports that it works as which virtual GPU (the journal's fact ``devices``)."""
    claims: list[Claim] = []
    for run in runs:
        for rank in run.ranks:
            if rank.local_pid is None or rank.state not in LIVE_STATES:
                continue
            from gputop.facts.table import Facts

            claims += [
                Claim(rank.local_pid, device.virtual_index, device.thread_id, device.memory_bytes)
                for device in Facts(rank.facts).devices
                if device.virtual_index is not None
            ]
    return tuple(claims)
