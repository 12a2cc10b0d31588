"""Untracked runs in a list of runs: they have a tag, and those without a curve, which are not in ``Snapshot.runs``, are listed
as well."""

from __future__ import annotations

from dataclasses import replace

from gputop.snapshot import ProcessRun, Rank, Run, RunState, Snapshot

TAG = "untracked"


def listed_runs(snapshot: Snapshot) -> tuple[Run, ...]:
    """Return the runs of a snapshot, including those known only by their processes; untracked ones have a tag."""
    untracked = (*snapshot.process_runs, *snapshot.ended_runs)
    if not untracked:
        return snapshot.runs
    curves = {run_id for run in untracked if not run.starting for run_id in run.curve_ids}
    runs = (replace(run, tags=(*run.tags, TAG)) if run.run_id in curves else run for run in snapshot.runs)
    return (*runs, *(_as_run(run) for run in untracked if not run.curve_ids))


def processes_of(run_id: str | None, snapshot: Snapshot) -> ProcessRun | None:
    """Return what the processes of a listed run show, by its curve's id or by its key; None if it is tracked, or has ended."""
    return next((run for run in snapshot.process_runs if run_id == run.key or run_id in run.curve_ids), None)


def without_curve(run_id: str, snapshot: Snapshot) -> ProcessRun | None:
    """Return the untracked run that has this key, and no curve."""
    found = processes_of(run_id, snapshot)
    return found if found is not None and not found.curve_ids else None


def tracked_as(run: ProcessRun, snapshot: Snapshot) -> Run | None:
    """Return the tracked run that an untracked one became when its ranks began to log; None if there is none."""
    pids = {rank.pid for rank in run.ranks}
    return next(
        (
            found
            for found in snapshot.runs
            if (found.created_at or 0.0) >= (run.started_at or 0.0) and not pids.isdisjoint(r.local_pid for r in found.ranks)
        ),
        None,
    )


def _as_run(run: ProcessRun) -> Run:
    state: RunState = "starting" if run.starting else "running" if run.ended_at is None else "ended"
    ranks = tuple(  # processes without a number are counted by their run only
        Rank(rank.rank, rank.pid, local_rank=rank.local_rank, world_size=run.world_size, state=state)
        for rank in run.ranks
        if rank.rank is not None
    )
    return Run(
        run_id=run.key,
        name=run.name,
        state=state,
        created_at=run.started_at,
        ended_at=run.ended_at,
        world_size=run.world_size,
        command=run.command,
        ranks=ranks,
        tags=() if run.starting else (TAG,),
    )
