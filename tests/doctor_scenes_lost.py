"""Ranks that end before the others: where these wait, where they were ended with it, and where they have nothing to do with it.

``FAULTS`` holds (rule, name, scene, seconds), ``HEALTHY`` (name, scene, seconds).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gputop.snapshot import Snapshot

from .doctor_scenes import Scene, gpus
from .doctor_tracked import CALM, ddp, merged, single
from .samples import EPOCH

DIED_AT = 10
CLOSED = {"error": {"type": "RuntimeError", "message": "Connection closed by peer [127.0.0.1]:22467", "where": "train.py:60"}}
RAISED = {"error": {"type": "ValueError", "message": "bad hyperparameter", "where": "train.py:12"}}


def tasks(second: int) -> Snapshot:
    """A sweep: three tasks that one srun started, joined into one run by their job's id, each on its own GPU."""
    base = ddp(second, world=3, metrics={"loss": CALM["loss"]})
    (run,) = base.runs
    plain = single(second, {}).runs[0].ranks[0].facts
    ranks = tuple(replace(r, facts=merged(plain), step=(r.step or 0) + 50 * r.rank) for r in run.ranks)
    processes = tuple(
        replace(p, launcher=None, ppid=3000 + (p.rank or 0), environment=replace(p.environment, master_port=None))
        for p in base.processes
        if p.environment is not None
    )
    return replace(base, runs=(replace(run, ranks=ranks),), processes=processes)


def ends(scene: Scene, number: int, **changes: Any) -> Scene:
    """One rank of a scene ends after ten seconds, its process with it."""

    def later(second: int) -> Snapshot:
        base = scene(second)
        if second < DIED_AT:
            return base
        (run,) = base.runs
        was = {"step": 130, "last_log_at": EPOCH + DIED_AT, **changes}
        ranks = tuple(replace(r, **was) if r.rank == number else r for r in run.ranks)
        points = tuple(p for p in base.points if p.rank != number)
        processes = tuple(p for p in base.processes if p.rank != number)
        return replace(base, runs=(replace(run, ranks=ranks),), processes=processes, points=points)

    return later


def stops(second: int) -> Snapshot:
    """Three ranks whose steps end after ten seconds."""
    return ddp(second, world=3) if second < DIED_AT else replace(ddp(DIED_AT, world=3), sequence=second, **_clock(second))


def _clock(second: int) -> dict[str, Any]:
    now = ddp(second, world=3)
    return {"time": now.time, "monotonic_s": now.monotonic_s, "points": ()}


def over(state: dict[int, dict[str, Any]]) -> Scene:
    """A run of three ranks that has failed, each rank in its own way."""

    def scene(second: int) -> Snapshot:
        base = ddp(second, world=3, frozen=True)
        (run,) = base.runs
        ranks = tuple(replace(r, **{"last_log_at": EPOCH, "facts": {}, **state[r.rank]}) for r in run.ranks)
        return replace(base, runs=(replace(run, state="failed", ranks=ranks),), processes=(), devices=gpus([], 3))

    return scene


EXIT_1: dict[str, Any] = {"state": "failed", "exit_code": 1}
TERMINATED: dict[str, Any] = {"state": "killed", "exit_code": -15}
a_task_fails = ends(tasks, 1, **EXIT_1, facts=RAISED)
a_task_is_killed = ends(tasks, 1, state="killed", exit_code=-9)
leaves_and_others_wait = ends(stops, 1, **EXIT_1)
raises_and_others_wait = ends(stops, 1, **EXIT_1, facts=RAISED)
left_by_exit = over({0: TERMINATED, 1: EXIT_1, 2: TERMINATED})
left_and_others_lost_it = over({0: {**EXIT_1, "facts": CLOSED}, 1: EXIT_1, 2: {**EXIT_1, "facts": CLOSED}})
finished_early = over({0: {**EXIT_1, "facts": CLOSED}, 1: {"state": "finished"}, 2: {**EXIT_1, "facts": CLOSED}})

FAULTS: tuple[tuple[str, str, Scene, int], ...] = (
    ("G04", "one leaves by sys.exit(1), the others wait", leaves_and_others_wait, 40),
    ("G04", "one raises, the others wait", raises_and_others_wait, 40),
    ("G04", "one left by sys.exit(1), torchrun ended the others", left_by_exit, 20),
    ("G04", "one left by sys.exit(1), the others lost it", left_and_others_lost_it, 20),
    ("G04", "one finished early, the others lost it", finished_early, 20),
    ("G04", "a task of a sweep fails", a_task_fails, 40),
)
HEALTHY: tuple[tuple[str, Scene, int], ...] = (("a sweep under srun", tasks, 90),)
