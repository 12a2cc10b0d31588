"""Untracked runs of which ``gputop where`` tells who may be behind: the doctor names the same rank, and as carefully."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gputop.doctor.findings.finding import Finding
from gputop.snapshot import ProcessRank, ProcessRun, Snapshot, Workers
from gputop.whereabouts.records import Doing, RankPlace
from gputop.whereabouts.verdict import judged, summary
from tests.doctor.scenes import outside as scenes
from tests.doctor.scenes.base import Scene, play
from tests.doctor.scenes.hangs import idle_server

SILENT: dict[str, Any] = {"doing": "has sent nothing for 40s, and the others have since"}
RUNS: dict[str, Any] = {"process_state": "R", "still": False}
STUCK_WORKER: dict[str, Any] = {"doing": "waits for its loader worker 5001, which waits for a lock"}
BUSY_WORKER: dict[str, Any] = {"doing": "waits for its loader worker 5001, which runs"}


def placed(scene: Scene, late: int, since: int = 50, workers: Workers | None = None, **does: Any) -> Scene:
    """The same run; from a second on, the sampler shows where its ranks are, and one of them does something else."""

    def shown(second: int) -> Snapshot:
        shot = scene(second)
        if second < since:
            return shot
        runs = []
        for run in shot.process_runs:
            ranks = []
            for number, rank in enumerate(run.ranks):
                known = {"process_state": "S", "still": True, **(does if number == late else {})}
                ranks.append(replace(rank, place=RankPlace(number, rank.pid, "host", **known)))
            runs.append(replace(run, ranks=tuple(ranks)))
        processes = [replace(p, workers=workers) if n == late else p for n, p in enumerate(shot.processes)]
        return replace(shot, process_runs=tuple(runs), processes=tuple(processes))

    return shown


def first(scene: Scene, seconds: int) -> tuple[int, Finding] | None:
    """When the doctor first named a hang, and what it said in the end."""
    said = [next((item for item in found if item.id == "G01"), None) for found in play(scene, seconds)]
    seen = next((second for second, item in enumerate(said) if item is not None), None)
    return None if seen is None or said[-1] is None else (seen, said[-1])


def without_output(doing: scenes.Doing) -> Scene:
    """Ranks that train for 40 s and print nothing; then rank 0 waits for rank 1, which does something."""
    work = scenes.taking_turns("runs", "runs", "lock")
    percent = 95.0 if doing(0) == "runs" else 0.5
    return scenes.outside(
        scenes.then(work, 40, scenes.always("lock")),
        scenes.then(work, 40, doing),
        stops=40,
        printed=False,
        percent=lambda number, second: 90.0 if second < 40 else percent if number else 1.0,
    )


FAULTS = {
    "has entered nothing": placed(scenes.hangs, 1, **SILENT),
    "waits for a worker that hangs": placed(
        scenes.outside(
            scenes.then(scenes.taking_turns("runs", "lock"), 40, scenes.always("lock")),
            scenes.then(scenes.taking_turns("runs", "lock"), 40, scenes.always("events")),
            stops=40,
        ),
        1,
        workers=Workers(1, 0.0, pids=(5001,)),
        **STUCK_WORKER,
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_rank_that_does_nothing_is_behind_when_no_step_comes_any_more(name: str) -> None:
    found = first(FAULTS[name], 140)
    assert found is not None
    assert found[0] <= 75
    assert (found[1].severity, found[1].confidence) == ("error", "likely")
    assert found[1].title == "The training hangs: rank 0 waits for rank 1"
    assert found[1].pids[0] == 4001
    assert "py-spy dump --pid 4001" in found[1].fix


def test_the_lines_at_which_the_ranks_are_seen_are_quoted() -> None:
    stuck = Doing("other", "train.py:88", "submit", "self.todo.put(batch, timeout=5)")
    meets = Doing("collective", "train.py:60", "fit", "dist.barrier()")

    def seen(second: int) -> Snapshot:
        shot = FAULTS["has entered nothing"](second)
        pairs = zip(shot.processes, (meets, stuck), strict=True)
        return replace(shot, processes=tuple(replace(process, doing=doing) for process, doing in pairs))

    found = first(seen, 140)
    assert found is not None
    lines = [fact.text for fact in found[1].evidence if fact.source.endswith("/mem")]
    assert [line.partition("was at ")[2] for line in lines] == [stuck.place, meets.place]


@pytest.mark.parametrize(
    ("doing", "does"),
    [("lock", SILENT), ("sleep", {"doing": "sleeps"}), ("events", STUCK_WORKER)],
    ids=["has entered nothing", "sleeps", "waits for a worker that hangs"],
)
def test_a_rank_is_named_without_any_output(doing: str, does: dict[str, Any]) -> None:
    workers = Workers(1, 0.0, pids=(5001,)) if doing == "events" else None
    scene = placed(without_output(scenes.always(doing)), 1, workers=workers, **does)
    found = first(scene, 140)
    assert found is not None
    assert found[0] <= 100
    assert (found[1].confidence, found[1].title) == ("possible", "The training may hang: rank 0 waits for rank 1")
    assert any(str(does["doing"]) in fact.text for fact in found[1].evidence)


@pytest.mark.parametrize(
    ("doing", "does", "workers"),
    [
        ("runs", RUNS, None),
        ("file", {"doing": "reads /data/train.bin"}, None),
        ("socket", {"doing": "reads a socket"}, None),
        ("child", {"doing": "waits for a child process"}, None),
        ("events", BUSY_WORKER, Workers(1, 98.0)),
        ("events", BUSY_WORKER, Workers(1, 2.0, blocked=1)),
    ],
    ids=["evaluates", "reads", "uploads", "waits for a program", "waits for a batch", "waits for a slow disk"],
)
def test_a_rank_that_may_work_for_all_is_left_alone_for_minutes(
    doing: str, does: dict[str, Any], workers: Workers | None
) -> None:
    assert first(placed(without_output(scenes.always(doing)), 1, workers=workers, **does), 400) is None


def test_a_rank_that_works_while_no_step_comes_is_never_said_to_be_stuck() -> None:
    """It may evaluate for all, however long that takes."""
    work = scenes.taking_turns("runs", "lock")
    printed = scenes.outside(
        scenes.then(work, 40, scenes.always("lock")), scenes.then(work, 40, scenes.always("runs")), stops=40
    )
    found = first(placed(printed, 1, **RUNS), 600)
    assert found is not None
    assert (found[1].severity, found[1].confidence) == ("warning", "possible")


def test_a_rank_that_computes_on_a_crowded_machine_does_not_rest() -> None:
    base = without_output(scenes.always("runs"))

    def crowded(second: int) -> Snapshot:
        shot = base(second)
        return replace(shot, processes=tuple(replace(p, cpu_percent=4.0) if second >= 40 else p for p in shot.processes))

    assert first(placed(crowded, 1, **RUNS), 300) is None


@pytest.mark.parametrize("scene", [scenes.server_of_parameters, scenes.prepares_data], ids=["steps come", "before the first"])
def test_ranks_that_wait_while_one_works_are_left_alone(scene: Scene) -> None:
    late = 1 if scene is scenes.server_of_parameters else 0
    assert first(placed(scene, late, since=0, **RUNS), 300) is None


def test_the_doctor_names_the_rank_that_where_names() -> None:
    shot = placed(scenes.hangs, 1, **SILENT)(60)
    places = [rank.place for rank in shot.process_runs[0].ranks if rank.place is not None]
    told = summary(judged(None, "train.py", shot.time, places))
    assert told is not None
    assert "it may be rank 1" in told


def test_ranks_that_never_ran_backward_on_a_gpu_may_serve() -> None:

    def serves(second: int) -> Snapshot:
        shot = idle_server(second)
        over_gloo = (replace(p, threads=(("pt_gloo_runloop", 2),), waits_for="lock") for p in shot.processes)
        ranks = tuple(ProcessRank(process.pid, number) for number, process in enumerate(shot.processes))
        return replace(shot, processes=tuple(over_gloo), process_runs=(ProcessRun("launcher:1", "serve.py", ranks),))

    assert first(placed(serves, 1, since=0, **SILENT), 300) is None
