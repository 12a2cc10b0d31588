"""Runs whose steps take seconds: few of them are enough where they take long together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gputop.snapshot import Snapshot
from tests.doctor.scenes.base import Scene, ids, play
from tests.doctor.scenes.pace import even, loader_bound, rank_0_draws, slow_data
from tests.doctor.tracked import one_step_in_three_seconds

FACTOR = 3 / 0.063
"""Steps of 63 ms that take 3 s instead."""


def long(scene: Callable[[int], Snapshot], factor: float = FACTOR) -> Scene:
    """The same run with steps of 3 s, each part of which takes this many times as long."""

    def shown(second: int) -> Snapshot:
        shot = one_step_in_three_seconds(scene(second), second)
        points = tuple(
            item if item.metric == "loss" else replace(item, values=tuple(factor * value for value in item.values))
            for item in shot.points
        )
        return replace(shot, points=points)

    return shown


@pytest.mark.parametrize(("rule", "scene"), [("F05", rank_0_draws), ("F01", slow_data)])
def test_the_rank_that_the_others_wait_for_is_named_after_a_dozen_steps(rule: str, scene: Scene) -> None:
    said = play(long(scene), 75)
    assert (said[-1][0].id, said[-1][0].confidence) == (rule, "possible")
    assert all(finding.id == rule for found in said for finding in found)


def test_ranks_in_step_wait_for_none() -> None:
    assert not any(ids(found) for found in play(long(even), 90))


def test_a_loader_that_is_too_slow_is_named_after_a_dozen_steps() -> None:
    said = play(long(loader_bound), 95)
    assert said[-1][0].id == "D01"
    assert said[-1][0].confidence == "certain"


@pytest.mark.parametrize("scene", [rank_0_draws, slow_data])
def test_a_few_short_steps_are_not_enough(scene: Scene) -> None:
    assert not ids(play(long(scene, 5.0), 50)[-1])
