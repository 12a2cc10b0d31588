"""Of a run that writes a value for each epoch to a file, and prints more, both courses are judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.process import OUTPUT, ProcessCurve
from gputop.snapshot import Points, Snapshot
from tests.doctor.rules.learning.test_forgets import jumps, own_data
from tests.doctor.scenes.base import Scene, ids, only_shown, play

EPOCH = 40
"""How many steps pass between two values in the file."""


def written(scene: Scene, source: str = OUTPUT, shared: bool = False) -> Scene:
    """The scene's metrics are printed, or known from another ``source``; of its loss, a file has one value for each epoch."""
    base = only_shown(scene, {"source": "log"})

    def shown(second: int) -> Snapshot:
        snapshot = base(second)
        (printed,), (found,) = snapshot.runs, snapshot.process_runs
        file = replace(printed, run_id="file", ranks=tuple(replace(rank, facts={"source": "CSV"}) for rank in printed.ranks))
        curves = (ProcessCurve("file", "CSV"), ProcessCurve(printed.run_id, source, shared=shared))
        thin = tuple(of_epochs(points) for points in snapshot.points if points.metric == "loss")
        return replace(
            snapshot,
            runs=(file, printed),
            points=(*snapshot.points, *thin),
            process_runs=(replace(found, run_id="file", curves=curves),),
        )

    return shown


def of_epochs(points: Points) -> Points:
    rows = zip(points.steps, points.times, points.values, strict=True)
    kept = [(step // EPOCH, time, 2.3) for step, time, _ in rows if step % EPOCH == 0]
    steps, times, values = zip(*kept, strict=True) if kept else ((), (), ())
    return replace(points, run_id="file", steps=steps, times=times, values=values)


def test_what_is_printed_shows_what_the_file_does_not() -> None:
    assert "J04" in ids(play(written(own_data(jumps())), 75)[-1])


@pytest.mark.parametrize(
    ("source", "shared"), [("W&B", False), (OUTPUT, True)], ids=["another file", "of another run, perhaps"]
)
def test_other_courses_are_not_judged_beside_it(source: str, shared: bool) -> None:
    assert "J04" not in ids(play(written(own_data(jumps()), source, shared), 75)[-1])
