"""Ranks that end before the others: where these wait, where they were ended with it, and where they have nothing to do with it.

``FAULTS`` holds (rule, name, scene, seconds), ``HEALTHY`` (name, scene, seconds).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gputop.snapshot import Communicator, CommunicatorRank, Snapshot
from tests.doctor.scenes.base import Scene, gpus
from tests.doctor.tracked import CALM, ddp, merged, single
from tests.samples import EPOCH

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
loses_another_and_others_wait = ends(stops, 1, **EXIT_1, facts=CLOSED)
ended_by_their_launchers = over({0: TERMINATED, 1: TERMINATED, 2: TERMINATED})
raises_and_others_wait = ends(stops, 1, **EXIT_1, facts=RAISED)
left_by_exit = over({0: TERMINATED, 1: EXIT_1, 2: TERMINATED})
left_and_others_lost_it = over({0: {**EXIT_1, "facts": CLOSED}, 1: EXIT_1, 2: {**EXIT_1, "facts": CLOSED}})
finished_early = over({0: {**EXIT_1, "facts": CLOSED}, 1: {"state": "finished"}, 2: {**EXIT_1, "facts": CLOSED}})


def leaves_well(scene: Scene, **changes: Any) -> Scene:
    """Rank 1 of a scene breaks out of its loop after ten seconds, and returns."""
    return ends(scene, 1, state="finished", exit_code=0, **changes)


def stands(*places: tuple[str, list[str]] | None, after_s: int = 30, early_s: int = 10) -> Scene:
    """Ranks that make no step after ten seconds, and tell where they stand: a first word after 10 s, the second after 30 s."""

    def scene(second: int) -> Snapshot:
        base = stops(second)
        (run,) = base.runs
        for number, place in enumerate(places):
            if place is None or second < DIED_AT + early_s:
                continue
            phase, stack = place
            since = EPOCH + DIED_AT
            said = {"since": since, "at": since + early_s, "step": 130, "phase": phase, "stack": stack}
            if second < DIED_AT + after_s:
                said["early"] = True
            run = replace(
                run, ranks=tuple(replace(r, facts={**r.facts, "stalled": said}) if r.rank == number else r for r in run.ranks)
            )
        return replace(base, runs=(run,))

    return scene


BACKWARD = ("backward", ["graph.py:841 _engine_run_backward", "train.py:60 main"])
TESTS = ("evaluation", ["conv.py:549 forward", "train.py:80 evaluate", "train.py:99 main"])
SAVES = ("checkpoint", ["serialization.py:970 save", "train.py:88 main"])
COMPILES = ("backward", ["compile_fx.py:800 compile_fx", "convert_frame.py:500 _compile", "train.py:60 main"])
leaves_the_loop = leaves_well(stands(BACKWARD, None, BACKWARD))


def leaves_by_nccl(second: int) -> Snapshot:
    """The same without a stack from the ranks, on GPUs: NCCL's counts name the one that is behind."""
    base = leaves_well(stops)(second)
    behind = 499 if second >= DIED_AT else 500
    counts = (500, behind, 500)
    ranks = tuple(
        CommunicatorRank(n, 4000 + n, "node7", n, "running", None, {"AllReduce": count + (second if second < DIED_AT else 10)})
        for n, count in enumerate(counts)
    )
    return replace(base, communicators=(Communicator("c", 3, ranks),))


def without_a_group(second: int) -> Snapshot:
    """Tasks of a sweep, of which one is done and the others' kernels run for long."""
    base = leaves_the_loop(second)
    (run,) = base.runs
    ranks = tuple(
        replace(r, facts={k: v for k, v in r.facts.items() if k not in ("process_group", "ddp", "wrapper_calls")})
        for r in run.ranks
    )
    return replace(base, runs=(replace(run, ranks=ranks),))


def end_together(second: int) -> Snapshot:
    """The run ends: rank 0 some seconds after the others."""
    base = stops(second)
    (run,) = base.runs
    over = {rank: second >= at for rank, at in ((0, 17), (1, 12), (2, 13))}
    ranks = tuple(replace(r, state="finished", exit_code=0) if over[r.rank] else r for r in run.ranks)
    processes = tuple(p for p in base.processes if p.rank is None or not over[p.rank])
    state = "finished" if all(over.values()) else run.state
    return replace(base, runs=(replace(run, ranks=ranks, state=state),), processes=processes)


def goes_on_after_it(second: int) -> Snapshot:
    """Rank 1 is done, and the steps of the others come: they are within Join, or exchange nothing."""
    return ends(lambda now: ddp(now, world=3), 1, state="finished", exit_code=0)(second)


FAULTS: tuple[tuple[str, str, Scene, int], ...] = (
    ("G04", "one leaves by sys.exit(1), the others wait", leaves_and_others_wait, 40),
    ("G04", "one raises, the others wait", raises_and_others_wait, 40),
    ("G04", "one left by sys.exit(1), torchrun ended the others", left_by_exit, 20),
    ("G04", "one left by sys.exit(1), the others lost it", left_and_others_lost_it, 20),
    ("G04", "one finished early, the others lost it", finished_early, 20),
    ("G04", "a task of a sweep fails", a_task_fails, 40),
    ("G04", "one leaves its loop early, the others wait in backward", leaves_the_loop, 60),
    ("G04", "one leaves its loop early, by NCCL's counts", leaves_by_nccl, 60),
)
HEALTHY: tuple[tuple[str, Scene, int], ...] = (
    ("a sweep under srun", tasks, 90),
    ("a run that ends", end_together, 60),
    ("rank 0 tests after the training", leaves_well(stands(TESTS, None, TESTS)), 60),
    ("rank 0 saves after the training", leaves_well(stands(SAVES, None, BACKWARD)), 60),
    ("ranks that compile", leaves_well(stands(COMPILES, None, COMPILES)), 60),
    ("ranks that go on without it", goes_on_after_it, 60),
)
