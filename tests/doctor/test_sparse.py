"""Of quick iterations few are looked at whole: who is waited for is found from those, and nobody is where nobody is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gputop.snapshot import Points, Snapshot
from gputop.tracking.auto.training.pace import full_share, is_full
from tests.doctor.scenes import pace
from tests.doctor.scenes.base import Scene, ids, play

QUICK_STEP_S = 0.004
TIMES = 64
"""A step of the scene becomes this many."""
DENSE = ("step_s", "phase/data", "loss")
WAITED_FOR = [row for row in pace.FAULTS if row[0] in ("F01", "F02", "F03", "F04", "F05")]


def quick(scene: Scene) -> Scene:
    """The same training in steps that follow each other quickly: their times are those of the scene, by which all rules go."""
    part = full_share(QUICK_STEP_S)

    def played(second: int) -> Snapshot:
        base = scene(second)
        return replace(base, points=tuple(thinned(points, part) for points in base.points))

    return played


def thinned(points: Points, part: int) -> Points:
    rows = [
        (TIMES * step + more, time + more / TIMES / 3, value)
        for step, time, value in zip(points.steps, points.times, points.values, strict=True)
        for more in range(TIMES)
        if points.metric in DENSE or is_full(TIMES * step + more, part)
    ]
    steps, times, values = zip(*rows, strict=True) if rows else ((), (), ())
    return replace(points, steps=steps, times=times, values=values)


@pytest.mark.parametrize(("rule", "name", "scene", "seconds"), WAITED_FOR, ids=[f"{row[0]}-{row[1]}" for row in WAITED_FOR])
def test_the_rank_that_others_wait_for_is_found(rule: str, name: str, scene: Scene, seconds: int) -> None:
    said = play(quick(scene), seconds)
    assert ids(said[-1])[:1] == [rule]


def test_no_rank_is_named_if_all_are_in_step() -> None:
    assert all(not ids(found) for found in play(quick(pace.even), 60))
